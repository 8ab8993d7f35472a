// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// chartObjects is the number of objects in the chart.
const chartObjects = 4

// TestBudget counts the operator's requests, with events and without watches. Each count is an
// upper limit for the operation. Before and after each operation, the operator must be silent for
// two seconds, which takes most of the time.
func TestBudget(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	spend := func(what string, most int, do func()) {
		t.Helper()
		spendAtMost(t, ns, what, most, do)
	}
	change := func(change func(*v1alpha1.DemoAppSpec)) func() {
		return func() {
			generation := ns.Change("web", change).Generation
			ns.Await("web", "reconciled", func(app *v1alpha1.DemoApp) bool {
				return app.Status.ObservedGeneration == generation && apps.IsReady(app)
			})
		}
	}
	// The cluster decides when a Deployment is healthy again, and so whether that takes a status
	// update. The Deployment comes last.
	stillKinds := slices.Clone(ownedKinds)
	slices.Reverse(stillKinds)
	patchObjects := func(kinds int, change func(int) string) func() {
		return func() {
			for i := range kinds {
				patch(t, shared.Dynamic.Resource(stillKinds[i].resource).Namespace(ns.Name), "web", change(i))
			}
		}
	}

	spend("an install", 10, func() { ns.Create(apps.WithoutPods("web")); ns.AwaitReady("web") })
	spend("an upgrade of one object", 1+6, change(func(spec *v1alpha1.DemoAppSpec) { spec.Service.Port = 81 }))
	spend("an upgrade of two objects", 2+6, change(func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Budget" }))
	// A label, because an annotation begins a new generation of the Deployment, which a slow
	// cluster observes late.
	spend("fields of others", 0, patchObjects(len(ownedKinds), func(int) string { return `{"metadata": {"labels": {"other": "field"}}}` }))
	for drifted := 1; drifted <= len(ownedKinds); drifted++ {
		spend(fmt.Sprintf("drift of %d objects, one after the other", drifted), drifted*(1+3), func() {
			known := len(ns.Versions("web"))
			patchObjects(drifted, func(i int) string { return stillKinds[i].change })()
			ns.Await("web", "corrected", func(app *v1alpha1.DemoApp) bool {
				return apps.IsReady(app) && apps.IsAbsent(app, releasev1alpha1.ConditionDrifted) &&
					slices.ContainsFunc(ns.Versions("web")[known:], func(version apps.Version) bool {
						return !apps.IsAbsent(version.App, releasev1alpha1.ConditionDrifted)
					})
			})
		})
	}
	// In a namespace of its own, because the status that follows a drift can be late.
	another := newNamespace(t)
	spendAtMost(t, another, "a wait, for the first time", 2+1, func() {
		another.Create(apps.Waiting("waiting", "missing"))
		another.Await("waiting", "waits", func(app *v1alpha1.DemoApp) bool {
			return apps.Has(app, releasev1alpha1.ConditionDependencyReady, metav1.ConditionFalse, releasev1alpha1.ReasonWaiting)
		})
	})
	for port := range int32(12) {
		// More revisions than are kept.
		change(func(spec *v1alpha1.DemoAppSpec) { spec.Service.Port = 100 + port })()
	}
	spend("an upgrade of one object, when the history is full", 1+6, change(func(spec *v1alpha1.DemoAppSpec) { spec.Service.Port = 80 }))
	// One request asks whether the objects still have their owner.
	spend("an uninstall, with the audit record", chartObjects+5, func() { ns.Delete("web"); ns.AwaitGone("web") })
}

// TestBudgetOfRollback counts the requests of a rollback of an upgrade whose pods find no node. The
// timeout of 20 seconds must be longer than the upgrade, whose requests are counted apart.
func TestBudgetOfRollback(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("web")
	app.Spec.WaitForReady = true
	app.Spec.Remediation = &releasev1alpha1.Remediation{Retries: ptr.To[int32](0), Strategy: releasev1alpha1.RemediationRollback}
	ns.Create(app)
	ns.AwaitReady("web")
	// The timeout ends after the requests of the upgrade.
	patience := 20 * time.Second
	// The status with the cause comes with it.
	spendAtMost(t, ns, "an upgrade of one object whose pod does not start", 1+6+1, func() {
		ns.Change("web", func(spec *v1alpha1.DemoAppSpec) {
			spec.NodeName, spec.Timeout = "nowhere", &metav1.Duration{Duration: patience}
		})
		ns.Await("web", "upgraded, and says why its pod does not start", func(app *v1alpha1.DemoApp) bool {
			return apps.Revision(app) == 2 && strings.Contains(apps.Condition(app, apimeta.ConditionReady).Message, "Unschedulable")
		})
	})
	// A slow cluster reports late that the Deployment is healthy again, which costs a status update.
	spendAtMost(t, ns, "a rollback of one object", 1+6+1, func() {
		ns.Await("web", "rolled back", func(app *v1alpha1.DemoApp) bool {
			return apps.Revision(app) == 3 && apps.IsStalled(app, releasev1alpha1.ReasonRolledBack)
		})
	})
}

// spendAtMost counts the operator's requests for a namespace, from before do until there are no
// more.
func spendAtMost(t *testing.T, ns *apps.Namespace, what string, most int, do func()) {
	t.Helper()
	ns.AwaitQuiet(quiet)
	began := time.Now()
	do()
	ns.AwaitQuiet(quiet)
	// Time decides when the pods of a release that is not healthy are listed.
	requests := slices.DeleteFunc(ns.Requests(began), func(r cluster.AuditEvent) bool { return r.Verb == "list" && r.Resource == "pods" })
	t.Logf("%s: %d requests, at most %d", what, len(requests), most)
	if len(requests) > most {
		t.Errorf("%s took %d requests, at most %d are allowed:\n%s", what, len(requests), most, apps.Describe(requests))
	}
}
