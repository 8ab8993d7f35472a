// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// slowestHandOver bounds the time from Deployed=True of a dependency to DependencyReady=True of the
// dependent, which is written when the dependent is installed. An idle machine takes a tenth of a
// second, and a busy one many times as long. The bound must rule out that the safety net, a timer
// of minutes, was the cause.
const slowestHandOver = 30 * time.Second

func TestDependentIsDeployedAfterDependency(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Waiting("app-b", "app-a"))
	waiting := ns.Await("app-b", "waiting", isWaiting)
	if got := apps.Condition(waiting, releasev1alpha1.ConditionDependencyReady).Message; !strings.Contains(got, `"app-a"`) {
		t.Errorf("DependencyReady does not name the dependency: %s", got)
	}
	if !apps.Has(waiting, apimeta.ConditionReady, metav1.ConditionFalse, releasev1alpha1.ReasonWaiting) ||
		!apps.Has(waiting, apimeta.ConditionReconciling, metav1.ConditionTrue, releasev1alpha1.ReasonWaiting) ||
		!apps.IsAbsent(waiting, apimeta.ConditionStalled) || !apps.IsAbsent(waiting, releasev1alpha1.ConditionFailed) {
		t.Errorf("conditions while it waits: %+v", waiting.Status.Conditions)
	}
	assertNothingInstalled(t, ns, "app-b")

	ns.Create(apps.Named("app-a"))
	app := ns.AwaitReady("app-b")
	if app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonCrossCRDependencyBecameReady {
		t.Errorf("lastUpgradeReason is %s", app.Status.LastUpgradeReason)
	}
	if !apps.Has(app, releasev1alpha1.ConditionDependencyReady, metav1.ConditionTrue, releasev1alpha1.ReasonDependencyDeployed) {
		t.Errorf("DependencyReady is %+v", apps.Condition(app, releasev1alpha1.ConditionDependencyReady))
	}
	if a := ns.AwaitReady("app-a"); a.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonSpecGenerationChanged {
		t.Errorf("lastUpgradeReason of the dependency is %s", a.Status.LastUpgradeReason)
	}
	assertHandOver(t, ns, "app-a", "app-b")
	assertRecords(t, ns, "app-a v1 deployed", "app-b v1 deployed")
}

func isWaiting(app *v1alpha1.DemoApp) bool {
	return apps.Has(app, releasev1alpha1.ConditionDependencyReady, metav1.ConditionFalse, releasev1alpha1.ReasonWaiting)
}

func assertNothingInstalled(t *testing.T, ns *apps.Namespace, name string) {
	t.Helper()
	if objects := ns.Objects(name).All(); len(objects) > 0 {
		t.Errorf("%s: there are objects: %v", name, objects)
	}
	if records := ns.Records(name); len(records) > 0 {
		t.Errorf("%s: there are release records: %v", name, records)
	}
}

// assertHandOver asserts that a dependent was installed soon after its dependency was deployed, by
// the times of the watch events.
func assertHandOver(t *testing.T, ns *apps.Namespace, dependency, dependent string) {
	t.Helper()
	deployed := firstSeen(t, ns, dependency, releasev1alpha1.ConditionDeployed)
	ready := firstSeen(t, ns, dependent, releasev1alpha1.ConditionDependencyReady)
	took := ready.Sub(deployed)
	t.Logf("%s was installed %s after %s was deployed", dependent, took, dependency)
	if took < 0 || took > slowestHandOver {
		t.Errorf("%s was installed %s after %s was deployed, want at most %s", dependent, took, dependency, slowestHandOver)
	}
}

// firstSeen returns the time at which a condition was first True.
func firstSeen(t *testing.T, ns *apps.Namespace, name, condition string) time.Time {
	t.Helper()
	for _, version := range ns.Versions(name) {
		if apps.Has(version.App, condition, metav1.ConditionTrue, "") {
			return version.Seen
		}
	}
	t.Fatalf("%s of %s was never True", condition, name)
	return time.Time{}
}
