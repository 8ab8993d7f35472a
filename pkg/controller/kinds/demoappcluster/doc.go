// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demoappcluster reconciles DemoAppClusters. A DemoAppCluster has one DemoApp for
// each selected node, as a DaemonSet has one pod.
//
// # Owned and watched objects
//
// The controller owns DemoApps only. The objects of a DemoApp are managed by the DemoApp
// controller. It watches DemoAppClusters and DemoApps. From the first DemoAppCluster on,
// it also watches the metadata of Nodes, and keeps their names and labels.
//
// A node counts as soon as it exists and matches. Readiness and cordons do not matter,
// because a kubelet restart must not delete an app. A node stops counting as soon as it
// is being deleted.
//
// # Nodes that do not count any more
//
// A node that is gone or has lost a label may come back, so its app stays for
// spec.removalGracePeriod. The status records the begin of each absence, which therefore
// survives a restart of the operator. Before the deletion, the API server must confirm the
// absence. A change of spec.nodeSelector is a wish of the owner and acts at once. It is
// distinguished from an absence by the selector of the last pass, which the status records,
// too: a node that the former selector still matches has not changed itself.
//
// # A pass
//
// A pass compares the nodes with the cached DemoApps. It sends no request if there is
// nothing to change. One pure function (decide) decides what to do from the state of each
// node:
//
//	found                                        done                        counts as
//	---------------------------------------------------------------------------------------------------
//	no DemoApp                                   creates it at once          -
//	DemoApp whose node is gone or lost a label   deletes it after the grace  -
//	DemoApp that a new nodeSelector excludes     deletes it at once          -
//	DemoApp that is being deleted                waits, then creates it      -
//	other template, does not serve               updates it at once          unavailable
//	other template, ready                        updates it in its turn      unavailable from then on
//	... or held by a gate while its pods serve   the same                    the same
//	this template, updated, not ready            waits                       unavailable
//	... because a newer chart waits              nothing                     current, updated
//	this template, new, not ready                waits                       current, updated
//	this template, ready                         nothing                     current, updated, ready
//	DemoApp of that name has another owner       does not change it          NameConflict
//
// A DemoApp gets its turn when fewer than maxUnavailable DemoApps are unavailable. It has
// another template if its spec, or a label or annotation of the template, differs from
// the template.
//
// Writes run in parallel: a few at first, and more as long as none fails. The status is
// written at most once a second.
//
// # Conditions
//
//	state                                                   Ready    reason            also True
//	---------------------------------------------------------------------------------------------------
//	all apps exist, up to date and ready                    True     AllReady          -
//	apps are created, updated, deleted or not ready yet     False    RollingOut        Reconciling
//	all apps that are not ready need a user                 False    AppsFailed        Stalled
//	... and the name of one has another owner               False    NameConflict      Stalled
//	the API server refuses a DemoApp of the template        False    Refused           Stalled
//	nodeSelector is invalid                                 False    ValidationFailed  Stalled
//	Nodes cannot be watched                                 False    ObserveFailed     Reconciling
//
// # Deletion
//
// The DemoAppCluster is the owner of its DemoApps. The garbage collector deletes them
// after it, and each DemoApp's own finalizer runs. A DemoAppCluster needs no finalizer.
// While it is being deleted, in the foreground or held by a finalizer of another owner,
// the controller only reports that, with reason Deleting.
//
// If a DemoAppCluster is deleted with "--cascade=orphan", its DemoApps stay without an
// owner. A new DemoAppCluster of the same name takes them over. It also takes over DemoApps that
// a backup tool created again. Their labels name the DemoAppCluster and the node.
package demoappcluster
