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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			if !strings.Contains(metrics, fmt.Sprintf("\ncontroller_rollouts{controller=\"demoapp\",state=%q} %d\n", state, want)) {
				return false, err
			}
		}
		return true, err
	})
}

// TestNewerChartRolloutIsLimited builds a second operator, and restarts it after a crash.
func TestNewerChartRolloutIsLimited(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	slow := createFleet(ns, "slow-1", "slow-2")
	webs := createFleet(ns, "web-1", "web-2", "web-3", "web-4", "web-5")
	operator.Stop()

	// The two oldest are upgraded first and stay in the rollout, because their pods do not start.
	binary := newerOperator(t)
	const limit = "--max-concurrent-rollouts=2"
	operator = cluster.StartOperatorBinary(t.Context(), t, shared, binary, limit)
	for _, name := range slow {
		// Why its pods do not start is the last that the operator writes of it.
		ns.Await(name, "in the rollout, with the reason", func(app *v1alpha1.DemoApp) bool {
			return isInRollout(app) && strings.Contains(apps.Condition(app, apimeta.ConditionReady).Message, "ImagePullBackOff")
		})
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
	shared.KillLeader(t, operator)
	operator = cluster.StartOperatorBinary(t.Context(), t, shared, binary, limit)
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
