// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

var (
	isUp    = condition(releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, releasev1alpha1.ReasonInstallSucceeded)
	isDown  = condition(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, releasev1alpha1.ReasonUpgradeFailed)
	isRound = condition(v1alpha1.ConditionDependencyReady, metav1.ConditionFalse, v1alpha1.ReasonDependencyCycle)
)

func TestDependencyState(t *testing.T) {
	const (
		waiting = v1alpha1.ReasonWaiting
		cycle   = v1alpha1.ReasonDependencyCycle
	)
	// waits maps each app to the app that it waits for.
	tests := []struct {
		name    string
		waits   map[string]string
		up      string
		ready   bool
		reason  string
		message string
	}{
		{"deployed", map[string]string{"a": "b", "b": ""}, "b", true, v1alpha1.ReasonDependencyDeployed, `DemoApp "b" is deployed`},
		{"not deployed", map[string]string{"a": "b", "b": ""}, "", false, waiting, `Waiting for DemoApp "b" to be deployed`},
		{"missing", map[string]string{"a": "b"}, "", false, waiting, `Waiting for DemoApp "b", which does not exist`},
		{"chain with an end", map[string]string{"a": "b", "b": "c", "c": ""}, "c", false, waiting, `Waiting for DemoApp "b" to be deployed`},
		{"chain to a missing app", map[string]string{"a": "b", "b": "c"}, "", false, waiting, `Waiting for DemoApp "b" to be deployed`},
		{
			"itself",
			map[string]string{"a": "a"},
			"a", false, cycle,
			"waitFor leads back to this DemoApp: a -> a; change waitFor of one of them",
		},
		{
			"cycle of two",
			map[string]string{"a": "b", "b": "a"},
			"b", false, cycle,
			"waitFor leads back to this DemoApp: a -> b -> a; change waitFor of one of them",
		},
		{
			"cycle of three",
			map[string]string{"a": "b", "b": "c", "c": "a"},
			"", false, cycle,
			"waitFor leads back to this DemoApp: a -> b -> c -> a; change waitFor of one of them",
		},
		{"cycle of other apps", map[string]string{"a": "b", "b": "c", "c": "b"}, "", false, waiting, `Waiting for DemoApp "b" to be deployed`},
		{"other app that waits for itself", map[string]string{"a": "b", "b": "b"}, "b", true, v1alpha1.ReasonDependencyDeployed, `DemoApp "b" is deployed`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lookup := func(name string) *v1alpha1.DemoApp {
				dependency, ok := test.waits[name]
				if !ok {
					return nil
				}
				app := newApp(name, waitsFor(dependency))
				if name == test.up {
					isUp(app)
				}
				return app
			}
			ready, reason, message := dependencyState(lookup("a"), lookup)
			expect.Equal(t, "ready", test.ready, ready)
			expect.Equal(t, "reason", test.reason, reason)
			expect.Equal(t, "message", test.message, message)
		})
	}
}

func TestDeletedDependencyHoldsUpgrade(t *testing.T) {
	w := newWorld(t)
	w.makeAuditNamespace()
	w.create(newApp("a", func(app *v1alpha1.DemoApp) { app.Finalizers = []string{"example.com/theirs"} }))
	w.passes("a", controller.SpecChange)
	w.create(newApp("b", waitsFor("a"), func(app *v1alpha1.DemoApp) { app.Spec.Suspend = true }))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "before the deletion", "True DependencyDeployed", w.conditions("b")["DependencyReady"])
	const message = `Waiting for DemoApp "a", which is being deleted`

	w.delete("a")
	w.change("b", func(app *v1alpha1.DemoApp) { app.Spec.Suspend = false })
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests while the deletion begins", []string{"apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "message", message, w.message("b", v1alpha1.ConditionDependencyReady))

	w.passes("a", controller.SpecChange)
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "requests while a finalizer remains", []string(nil), w.calls.Take())
	expect.Equal(t, "message", message, w.message("b", v1alpha1.ConditionDependencyReady))

	w.change("a", func(app *v1alpha1.DemoApp) { app.Finalizers = nil })
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "message", `Waiting for DemoApp "a", which does not exist`, w.message("b", v1alpha1.ConditionDependencyReady))
}

func TestDependencyChanged(t *testing.T) {
	app := func(change ...func(*v1alpha1.DemoApp)) *v1alpha1.DemoApp { return newApp("b", change...) }
	isLeaving := func(app *v1alpha1.DemoApp) { app.DeletionTimestamp = &metav1.Time{Time: began} }
	tests := []struct {
		name          string
		before, after *v1alpha1.DemoApp
		want          controller.Reason
	}{
		{"appears", nil, app(), controller.DependencyReady},
		{"is deleted", app(), nil, controller.DependencyReady},
		{"becomes deployed", app(), app(isUp), controller.DependencyReady},
		{"is no longer deployed", app(isUp), app(isDown), controller.DependencyReady},
		{"waits for another", app(), app(waitsFor("c")), controller.DependencyReady},
		{"becomes part of a cycle", app(waitsFor("c")), app(waitsFor("c"), isRound), controller.DependencyReady},
		{"is no longer part of a cycle", app(waitsFor("c"), isRound), app(waitsFor("c")), controller.DependencyReady},
		{"is being deleted", app(isUp), app(isUp, isLeaving), controller.DependencyReady},
		{"is being deleted, never deployed", app(), app(isLeaving), controller.DependencyReady},
		{"is being deleted as before", app(isUp, isLeaving), app(isDown, isLeaving), 0},
		{"is deployed as before", app(isUp), app(isUp, says("other")), 0},
		{"fails as before", app(), app(isDown), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "reason", test.want, dependencyChanged(test.before, test.after))
		})
	}
}

func TestIndexes(t *testing.T) {
	tests := []struct {
		name               string
		object             any
		dependency, source []string
	}{
		{"neither", newApp("a"), nil, nil},
		{"waitFor", newApp("a", waitsFor("b")), []string{"ns/b"}, nil},
		{"apiKeyFrom", newApp("a", keyFrom("keys", "k")), nil, []string{"Secret/ns/keys"}},
		{"valuesFrom", newApp("a", valuesFrom(configMapValues, secretValues)), nil, []string{"ConfigMap/ns/base", "Secret/ns/private"}},
		{"not a DemoApp", &metav1.PartialObjectMetadata{}, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dependency, err := dependencyIndex(test.object)
			expect.NoError(t, err)
			expect.Equal(t, "by dependency", test.dependency, dependency)
			source, err := sourceIndex(test.object)
			expect.NoError(t, err)
			expect.Equal(t, "by source", test.source, source)
		})
	}
}

func TestWaitFor(t *testing.T) {
	const (
		waiting  = "False Waiting"
		deployed = "True DependencyDeployed"
	)
	w := newWorld(t)
	w.create(newApp("b", waitsFor("a")))
	result := w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests", []string{"patch demoapps b", "apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions(
		"DependencyReady", waiting, "Ready", waiting, "Reconciling", "True Waiting", "Deployed", waiting), w.conditions("b"))
	expect.Equal(t, "observedGeneration", int64(-1), w.app("b").Status.ObservedGeneration)
	expect.Equal(t, "events", []string{`b Normal Waiting Reconcile Waiting for DemoApp "a", which does not exist`}, w.recorder.Take())
	if result.RequeueAfter <= 0 {
		t.Error("no requeue as a fallback for events")
	}
	w.passes("b", controller.PeriodicResync)
	expect.Equal(t, "requests while it waits", []string(nil), w.calls.Take())

	w.create(newApp("a"))
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "message", `Waiting for DemoApp "a" to be deployed`, w.message("b", v1alpha1.ConditionDependencyReady))
	w.passes("a", controller.SpecChange)
	w.recorder.Take()
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "requests", []string{"Install b NotInstalled", "apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "conditions", releasetest.Conditions(
		"DependencyReady", deployed, "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("b"))
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady, w.app("b").Status.LastUpgradeReason)
	expect.Equal(t, "events", []string{
		"b Normal Installed Install Installed revision 1 of chart demo-app 1.0.0 (CrossCRDependencyBecameReady)",
	}, w.recorder.Take())

	w.report("a", isDown)
	w.passes("b", controller.DependencyReady)
	expect.Equal(t, "conditions while the dependency fails", releasetest.Conditions(
		"DependencyReady", waiting, "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("b"))
	w.change("b", says("other"))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests of a held change", []string{"apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "conditions of a held change", releasetest.Conditions("DependencyReady", waiting,
		"Ready", waiting, "Reconciling", "True Waiting", "Deployed", "True InstallSucceeded"), w.conditions("b"))
	expect.Equal(t, "observedGeneration of a held change", int64(1), w.app("b").Status.ObservedGeneration)

	w.engine.Mutate(keyOf("b"), releasetest.Edit("Service"))
	w.passes("b", controller.Drift)
	expect.Equal(t, "requests for drift",
		[]string{"Repair b Drift", "apply demoapps/status b", "apply demoapps/status b"}, w.calls.Take())

	w.change("b", waitsFor(""))
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade b InputsChanged", "apply demoapps/status b"}, w.calls.Take())
	expect.Equal(t, "conditions without waitFor", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("b"))
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonSpecGenerationChanged, w.app("b").Status.LastUpgradeReason)
}

// TestStepsOfLargeRing counts the apps that a pass looks up, in rings of any size.
func TestStepsOfLargeRing(t *testing.T) {
	for size, found := range map[int]bool{2: true, maxRing: true, maxRing + 1: false, 5000: false} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			lookups := 0
			lookup := func(name string) *v1alpha1.DemoApp {
				lookups++
				number, err := strconv.Atoi(name)
				expect.NoError(t, err)
				return newApp(name, waitsFor(strconv.Itoa((number+1)%size)))
			}

			cycle := findCycle(lookup("0"), lookup)

			expect.Equal(t, "found", found, cycle != nil)
			if lookups > maxRing+1 {
				t.Errorf("looked up %d apps, want at most %d", lookups, maxRing+1)
			}
		})
	}
}

func TestCycleStalls(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", waitsFor("b")))
	w.create(newApp("b", waitsFor("a")))
	w.passes("a", controller.SpecChange)
	want := releasetest.Conditions("DependencyReady", "False DependencyCycle",
		"Ready", "False DependencyCycle", "Stalled", "True DependencyCycle", "Deployed", "False DependencyCycle")
	expect.Equal(t, "conditions", want, w.conditions("a"))
	expect.Contains(t, "message", w.message("a", apimeta.ConditionStalled), "a -> b -> a")
	expect.Equal(t, "events", []string{
		"a Warning DependencyCycle Reconcile waitFor leads back to this DemoApp: a -> b -> a; change waitFor of one of them",
	}, w.recorder.Take())

	w.change("a", keyFrom("keys", "k"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions with a missing key", want, w.conditions("a"))
	expect.Contains(t, "message", w.message("a", apimeta.ConditionStalled), `Secret "keys"`)
	expect.Contains(t, "message", w.message("a", apimeta.ConditionStalled), "a -> b -> a")

	w.secret(map[string]string{"k": plainKey})
	w.change("b", waitsFor(""))
	w.passes("b", controller.SpecChange)
	w.passes("a", controller.DependencyReady)
	expect.Equal(t, "conditions after the cycle is broken", releasetest.Conditions(
		"DependencyReady", "True DependencyDeployed", "Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}
