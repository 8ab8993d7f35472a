// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// isHeldBack returns a condition: the newer chart waits for this reason.
func isHeldBack(reason string) func(*v1alpha1.DemoApp) bool {
	return func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, releasev1alpha1.ConditionUpgradeHeld, metav1.ConditionTrue, reason) &&
			apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, reason)
	}
}

// hasNewerChart reports whether a DemoApp has the newer chart, healthy or not.
func hasNewerChart(app *v1alpha1.DemoApp) bool {
	return app.Status.DeployedRelease != nil && app.Status.DeployedRelease.ChartVersion == newerVersion
}

// isInRollout reports whether a DemoApp has the newer chart and is not healthy yet.
func isInRollout(app *v1alpha1.DemoApp) bool { return hasNewerChart(app) && !apps.IsReady(app) }

// createFleet creates DemoApps and returns their names when all are ready.
func createFleet(ns *apps.Namespace, names ...string) []string {
	for _, name := range names {
		ns.Create(apps.Named(name))
	}
	ns.AwaitAll(names, 1)
	return names
}

// which returns the names of the DemoApps for which done holds.
func which(ns *apps.Namespace, names []string, done func(*v1alpha1.DemoApp) bool) (found []string) {
	for _, name := range names {
		if ns.Count([]string{name}, done) > 0 {
			found = append(found, name)
		}
	}
	return found
}

// mostInRollout returns the largest number of DemoApps that were in the rollout at the same time.
func mostInRollout(t *testing.T, ns *apps.Namespace, names []string) (most int) {
	t.Helper()
	var versions []*v1alpha1.DemoApp
	for _, name := range names {
		for _, version := range ns.Versions(name) {
			versions = append(versions, version.App)
		}
	}
	slices.SortFunc(versions, func(a, b *v1alpha1.DemoApp) int {
		order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		return order
	})
	now := map[string]bool{}
	for _, app := range versions {
		if delete(now, app.Name); isInRollout(app) {
			now[app.Name] = true
		}
		most = max(most, len(now))
	}
	return most
}

// awaitRollouts waits until the operator's metrics have these counts.
func awaitRollouts(t *testing.T, operator *cluster.Operator, counts map[string]int) {
	t.Helper()
	cluster.Eventually(t.Context(), t, fmt.Sprintf("rollouts: %v", counts), func(ctx context.Context) (bool, error) {
		metrics, err := operator.Metrics(ctx)
		for state, want := range counts {
			if !strings.Contains(metrics, fmt.Sprintf("\ndemoapp_chart_rollouts{state=%q} %d\n", state, want)) {
				return false, err
			}
		}
		return true, err
	})
}

// force requests an upgrade.
func force(t *testing.T, ns *apps.Namespace, name string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "now", %q: "now"}}}`, releasev1alpha1.AnnotationRequestedAt, releasev1alpha1.AnnotationForceAt)
	if _, err := ns.Demo.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestNewerChartRolloutIsLimited builds a second operator, and restarts it with leases that expire.
func TestNewerChartRolloutIsLimited(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	slow := createFleet(ns, "slow-1", "slow-2")
	webs := createFleet(ns, "web-1", "web-2", "web-3", "web-4", "web-5")
	operator.Stop()

	// The two oldest are upgraded first and stay in the rollout, because their pods do not start.
	binary := newerOperator(t)
	args := append([]string{"--max-concurrent-rollouts=2"}, cluster.ShortLease...)
	operator = cluster.StartOperatorBinary(t.Context(), t, shared, binary, args...)
	for _, name := range slow {
		ns.Await(name, "in the rollout", isInRollout)
	}
	done := which(ns, webs, hasNewerChart)
	waiting := slices.DeleteFunc(slices.Clone(webs), func(name string) bool { return slices.Contains(done, name) })
	if len(waiting) < 3 {
		t.Fatalf("these DemoApps were released: %v", done)
	}
	for _, name := range waiting {
		app := ns.Await(name, "queued", isHeldBack(releasev1alpha1.ReasonRolloutQueued))
		if message := apps.Condition(app, apimeta.ConditionReady).Message; !strings.Contains(message, "2 DemoApps at a time") {
			t.Errorf("the message of Ready is %q", message)
		}
	}
	ns.AwaitEvent(waiting[0], "Held", releasev1alpha1.ReasonRolloutQueued, "waits for its turn")
	apps.AwaitNoWork(t, shared)

	// The next process knows the progress of the rollout, and writes nothing.
	before, begin := versions(ns, webs), time.Now()
	operator.Kill()
	operator = cluster.StartOperatorBinary(t.Context(), t, shared, binary, args...)
	cluster.AwaitLead(t, operator)
	awaitRollouts(t, operator, map[string]int{"queued": len(waiting), "active": 2, "failed": 0})
	apps.AwaitNoWork(t, shared)
	assertNoWork(t, begin)
	if after := versions(ns, webs); !slices.Equal(before, after) {
		t.Errorf("DemoApps were written:\nbefore %v\nafter  %v", before, after)
	}
	if most := mostInRollout(t, ns, append(webs, slow...)); most > 2 {
		t.Errorf("%d were on their way at once", most)
	}

	// A change of the spec is deployed at once.
	ns.Change(waiting[0], func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	app := ns.Await(waiting[0], "ready with the newer chart", func(app *v1alpha1.DemoApp) bool { return apps.IsReady(app) && hasNewerChart(app) })
	if app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonSpecGenerationChanged {
		t.Errorf("it was upgraded because of %s", app.Status.LastUpgradeReason)
	}
	if got := which(ns, waiting, hasNewerChart); len(got) != 1 {
		t.Errorf("other DemoApps were released: %v", got)
	}

	// Each place that becomes free is taken by the next DemoApp.
	ns.Delete(slow[0])
	for _, name := range waiting[1:] {
		app := ns.Await(name, "ready with the newer chart", func(app *v1alpha1.DemoApp) bool { return apps.IsReady(app) && hasNewerChart(app) })
		if app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonChartChanged || !apps.IsAbsent(app, releasev1alpha1.ConditionUpgradeHeld) {
			t.Errorf("%s was upgraded because of %s; UpgradeHeld is %+v", name, app.Status.LastUpgradeReason, apps.Condition(app, releasev1alpha1.ConditionUpgradeHeld))
		}
	}
	awaitRollouts(t, operator, map[string]int{"queued": 0, "active": 1, "failed": 0})
}

// TestRolloutOfBadChartIsHalted builds a second operator, and reports of a halt are delayed by five
// seconds.
func TestRolloutOfBadChartIsHalted(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	bad := createFleet(ns, "bad-1", "bad-2")
	webs := createFleet(ns, "web-1", "web-2", "web-3")
	operator.Stop()

	binary := newerOperator(t)
	args := append([]string{"--max-concurrent-rollouts=1", "--rollout-failure-threshold=2"}, cluster.ShortLease...)
	operator = cluster.StartOperatorBinary(t.Context(), t, shared, binary, args...)
	for _, name := range bad {
		ns.Await(name, "failed with the newer chart", func(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, releasev1alpha1.ReasonRenderFailed) })
	}
	waiting := slices.DeleteFunc(slices.Clone(webs), func(name string) bool { return slices.Contains(which(ns, webs, hasNewerChart), name) })
	if len(waiting) < 2 {
		t.Fatalf("only these DemoApps wait: %v", waiting)
	}
	for _, name := range waiting {
		ns.Await(name, "halted", isHeldBack(releasev1alpha1.ReasonRolloutHalted))
	}
	ns.AwaitEvent(waiting[0], "Held", releasev1alpha1.ReasonRolloutHalted, "at least 2 DemoApps of this namespace have failed")

	// The rollout stays halted, and a forced upgrade is deployed.
	operator.Stop()
	operator = cluster.StartOperatorBinary(t.Context(), t, shared, binary, args...)
	awaitRollouts(t, operator, map[string]int{"queued": len(waiting), "active": 0, "failed": 2})
	force(t, ns, waiting[0])
	ns.Await(waiting[0], "ready with the newer chart", func(app *v1alpha1.DemoApp) bool { return apps.IsReady(app) && hasNewerChart(app) })
	if got := which(ns, waiting, hasNewerChart); len(got) != 1 {
		t.Errorf("other DemoApps were released: %v", got)
	}

	// The rollout continues after a failed DemoApp was deleted.
	ns.Delete(bad[0])
	for _, name := range waiting[1:] {
		ns.Await(name, "ready with the newer chart", func(app *v1alpha1.DemoApp) bool { return apps.IsReady(app) && hasNewerChart(app) })
	}
	awaitRollouts(t, operator, map[string]int{"queued": 0, "active": 0, "failed": 1})
}

// TestValuesChangeDuringHaltedRollout: only the chart is halted, not a user's change of values. The
// reports of a halt and of its end are delayed by five seconds each.
func TestValuesChangeDuringHaltedRollout(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	configMaps := shared.Client.CoreV1().ConfigMaps(ns.Name)
	values := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "values"}, Data: map[string]string{releasev1alpha1.DefaultValuesKey: "{}"}}
	if _, err := configMaps.Create(t.Context(), values, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fixed := apps.Named("bad-1")
	fixed.Spec.ValuesFrom = []releasev1alpha1.ValuesReference{{Kind: releasev1alpha1.ValuesFromConfigMap, Name: "values"}}
	ns.Create(fixed)
	ns.AwaitAll([]string{"bad-1"}, 1)
	createFleet(ns, "bad-2", "bad-3")
	operator.Stop()

	operator = cluster.StartOperatorBinary(t.Context(), t, shared, newerOperator(t),
		append([]string{"--max-concurrent-rollouts=1", "--rollout-failure-threshold=1"}, cluster.ShortLease...)...)
	bad := []string{"bad-1", "bad-2", "bad-3"}
	for _, name := range bad {
		force(t, ns, name)
	}
	for _, name := range bad {
		ns.Await(name, "failed with the newer chart", func(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, releasev1alpha1.ReasonRenderFailed) })
	}
	awaitRollouts(t, operator, map[string]int{"active": 0, "failed": 3})

	// The values are in a ConfigMap, and the spec does not change.
	values.Data[releasev1alpha1.DefaultValuesKey] = `{podAnnotations: {fixed: "yes"}}`
	if _, err := configMaps.Update(t.Context(), values, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	isUpgraded := func(app *v1alpha1.DemoApp) bool { return apps.IsReady(app) && hasNewerChart(app) }
	ns.Await("bad-1", "fixed by its ConfigMap", isUpgraded)
	ns.Change("bad-2", func(spec *v1alpha1.DemoAppSpec) {
		spec.Values = &runtime.RawExtension{Raw: []byte(`{"podAnnotations": {"fixed": "yes"}}`)}
	})
	ns.Await("bad-2", "fixed by its values", isUpgraded)
	awaitRollouts(t, operator, map[string]int{"active": 0, "failed": 1})
}
