// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demoapp keeps DemoApps: each one is a release of the embedded chart,
// with the DemoApp's name and namespace.
//
// # What it owns and watches
//
// It owns the Helm release and, through it, a Deployment, a Service, a ConfigMap,
// a Secret and, for spec.ingress, an Ingress and an HTTPRoute, all named after the
// DemoApp, whose controller the DemoApp is. It watches DemoApps, the metadata of
// Secrets (for apiKeyFrom and valuesFrom), that of ConfigMaps from when a DemoApp
// names one in valuesFrom, that of IngressClasses and the definition of HTTPRoutes
// from when spec.ingress of a DemoApp depends on them, and, through the Helm
// engine, the release's objects and records.
//
// # A pass
//
// Package kind makes the pass and package release runs the release's lifecycle; what is
// here is what a DemoApp asks for (binding.Desired), its own rules and its own status. A
// pass needs no request when nothing has changed. What
// keeps a change from being rolled out (a key that is missing, a DemoApp that is
// waited for) does not keep drift of what is deployed from being corrected.
//
//	found                                        done                        conditions
//	---------------------------------------------------------------------------------------------------------------
//	never seen                                   finalizer, install          Initialized, Deployed, Ready
//	spec, key or chart changed                   upgrade                     Deployed, Ready
//	waitFor is not deployed                      waits                       DependencyReady=False, Reconciling
//	waitFor leads back here                      waits for a person          DependencyReady=False, Stalled
//	Secret or key of apiKeyFrom missing          waits                       Ready=False, Reconciling
//	what valuesFrom names is missing             waits                       Ready=False, Reconciling
//	what valuesFrom names is no object           waits for a person          Ready=False, Stalled
//	support for spec.ingress comes or goes       upgrade                     Exposed
//	... and may not be watched                   keeps what is deployed      Exposed=False where something is missing
//	ConfigMaps may not be watched                waits                       Ready=False, Reconciling
//	object changed, deleted, replaced            applies it again            Drifted while it lasts
//	release changed with the helm CLI            upgrade to the spec         Drifted while it lasts
//	attempt failed                               again, with backoff         Failed, Deployed=False, Reconciling
//	attempt refused                              waits for a change          Failed, Deployed=False, Stalled
//	operator was killed in the middle            the attempt again           as the attempt ends
//	annotation requested-at, or force-at         a full pass, an upgrade     as the pass ends
//	change outside of spec.upgradeWindow         waits until it opens        UpgradeHeld, Reconciling
//	newer chart, and others are first            waits for its turn          UpgradeHeld, Reconciling
//	newer chart, and it fails for many           waits until it works        UpgradeHeld, Reconciling
//	license denied, or not to be had             asks again after a while    Licensed=False, Reconciling
//	image, node port or host not valid           waits for a person          Validated=False, Stalled
//	spec.suspend                                 nothing, not even repair    Suspended; Ready=False if a change waits
//	deployed, pods starting                      waits for events            Ready=False/Progressing, Reconciling
//	deployed and healthy                         nothing                     Ready
//
// # Deletion
//
// The finalizer demo.example.com/audit-and-cleanup holds a deleted DemoApp until
// its audit record is written, its release is uninstalled and the finalizer is
// removed, in this order. A step that fails is retried; Ready says why. Where a
// finalizer of others remains, Deployed and Ready say first that the release is
// gone. A DemoApp that is being deleted satisfies no waitFor.
package demoapp
