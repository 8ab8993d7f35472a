// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demoapp reconciles DemoApps. Each DemoApp is a release of the embedded chart
// with the DemoApp's name and namespace.
//
// # Owned and watched objects
//
// The controller owns the Helm release and, through it, a Deployment, a Service, a
// ConfigMap and a Secret. For spec.ingress, it also owns an Ingress and an HTTPRoute. All
// objects are named after the DemoApp, which is their controller.
//
// It watches DemoApps, the metadata of Secrets (for apiKeyFrom and valuesFrom) and,
// through the Helm engine, the release's objects and records. The other watches start
// when a DemoApp first needs them. valuesFrom needs the metadata of ConfigMaps.
// spec.ingress needs the metadata of IngressClasses and the definition of HTTPRoutes.
//
// # A pass
//
// Package kind makes the pass, and package release runs the lifecycle of the release.
// This package adds the desired state of a DemoApp (binding.Desired), its validation and
// its own status. A pass sends no request if nothing has changed. A blocker of a change,
// such as a missing key or a dependency that is not deployed, does not stop the
// correction of drift.
//
//	found                                        done                        conditions
//	---------------------------------------------------------------------------------------------------------------
//	new DemoApp                                  finalizer, install          Initialized, Deployed, Ready
//	spec, key or chart changed                   upgrade                     Deployed, Ready
//	waitFor is not deployed                      waits                       DependencyReady=False, Reconciling
//	waitFor leads back to this DemoApp           waits for a user            DependencyReady=False, Stalled
//	Secret or key of apiKeyFrom missing          waits                       Ready=False, Reconciling
//	object or key of valuesFrom missing          waits                       Ready=False, Reconciling
//	value of valuesFrom is not a YAML object     waits for a user            Ready=False, Stalled
//	cluster support for spec.ingress changed     upgrade                     Exposed
//	... and may not be watched                   keeps deployed objects      Exposed=False if an object is missing
//	ConfigMaps may not be watched                waits                       Ready=False, Reconciling
//	object changed, deleted or replaced          applies the object again    Drifted until corrected
//	release changed with the helm CLI            upgrade to the spec         Drifted until corrected
//	attempt failed                               retries with backoff        Failed, Deployed=False, Reconciling
//	attempt refused                              waits for a change          Failed, Deployed=False, Stalled
//	operator stopped during an attempt           repeats the attempt         as after the attempt
//	annotation requested-at or force-at          a full pass, an upgrade     as after the pass
//	change outside of spec.upgradeWindow         waits until it opens        UpgradeHeld, Reconciling
//	change of the operator, limit reached        waits for its turn          UpgradeHeld, Reconciling
//	change of the operator, rollout halted       waits for recoveries        UpgradeHeld, Reconciling
//	license denied or unavailable                asks again later            Licensed=False, Reconciling
//	image, node port or host not valid           waits for a user            Validated=False, Stalled
//	spec.suspend is true                         nothing, not even repairs   Suspended; Ready=False if a change waits
//	deployed, pods starting                      waits for events            Ready=False/Progressing, Reconciling
//	deployed and healthy                         nothing                     Ready
//
// # Deletion
//
// The finalizer demo.example.com/audit-and-cleanup holds a deleted DemoApp. First the
// audit record is written, then the release is uninstalled, and then the finalizer is
// removed. A failed step is retried, and Ready reports the cause. If finalizers of other
// owners remain, Deployed and Ready report that the release is uninstalled. A DemoApp
// that is being deleted satisfies no waitFor.
package demoapp
