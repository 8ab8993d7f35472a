// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demoappcluster keeps DemoAppClusters: each one is a DemoApp for every
// node that matches its selector, as a DaemonSet is a pod for each.
//
// # What it owns and watches
//
// It owns DemoApps, and nothing else: what a DemoApp is made of is the business of
// the DemoApp's own controller. It watches DemoAppClusters, DemoApps and, from the
// first DemoAppCluster on, the metadata of Nodes, of which it keeps the name and
// the labels.
//
// A node counts as soon as it exists and matches, whether or not it is ready or
// cordoned: an app must not be torn down because a kubelet is restarted. It counts
// as gone as soon as it is being deleted.
//
// # A pass
//
// A pass compares the nodes with the DemoApps that the cache has, and needs no
// request when there is nothing to change. What it does is decided in one pure
// function (decide) from what is found for each node:
//
//	found                                        done                        counts as
//	---------------------------------------------------------------------------------------------------
//	no DemoApp                                   creates it, at once         -
//	DemoApp for a node that is gone              deletes it, at once         -
//	being deleted                                waits, then creates it      -
//	other template, does not serve               updates it, at once         unavailable
//	other template, ready                        updates it in its turn      unavailable from then on
//	... or held by a gate while its pods serve   the same                    the same
//	this template, updated, not ready            waits                       unavailable
//	... but for a newer chart, which waits       nothing                     current, updated
//	this template, new, not ready                waits                       current, updated
//	this template, ready                         nothing                     current, updated, ready
//	DemoApp of that name belongs to another      leaves it alone             NameConflict
//
// A turn comes when fewer than maxUnavailable DemoApps are unavailable. A DemoApp
// has another template when its spec, or one of the labels and annotations of the
// template, is not as the template has it, whoever changed it.
//
// Many writes run at once, a few at first and more as long as none fails. The
// status is written at most once a second.
//
// # Conditions
//
//	state                                                   Ready    reason            beside it
//	---------------------------------------------------------------------------------------------------
//	all apps exist, up to date and ready                    True     AllReady          -
//	apps are made, changed, deleted, or on their way        False    RollingOut        Reconciling
//	only apps that need a person keep it from being ready   False    AppsFailed        Stalled
//	... and one's name is taken                             False    NameConflict      Stalled
//	the API server finds a DemoApp of the template invalid  False    Refused           Stalled
//	nodeSelector is not one                                 False    ValidationFailed  Stalled
//	Nodes cannot be watched                                 False    ObserveFailed     Reconciling
//
// # Deletion
//
// The DemoApps name their DemoAppCluster as owner, and so the garbage collector
// deletes them after it; each DemoApp's own finalizer runs. There is no finalizer
// here, since there is nothing to do: a DemoAppCluster that is being deleted (in
// the foreground, or held by somebody's finalizer) is left alone. Deleted with
// "--cascade=orphan", it leaves DemoApps that belong to nobody and are never taken
// back: a DemoAppCluster of the same name reports NameConflict.
package demoappcluster
