// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestRestartWhileUpgradesAreHeld: gates keep no state of their own. The next process holds the
// same changes and writes nothing.
func TestRestartWhileUpgradesAreHeld(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	opens := time.Now().Add(12 * time.Hour).UTC()
	windowed := apps.Named("windowed")
	windowed.Spec.UpgradeWindow = &releasev1alpha1.UpgradeWindow{
		Schedule: fmt.Sprintf("%d %d * * *", opens.Minute(), opens.Hour()), Duration: metav1.Duration{Duration: time.Hour},
	}
	ns.Create(windowed)
	ns.Create(apps.Named("suspended"))
	names := []string{"windowed", "suspended"}
	ns.AwaitAll(names, 1)
	ns.Change("windowed", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	ns.Change("suspended", func(spec *v1alpha1.DemoAppSpec) { spec.Message, spec.Suspend = "Second", true })
	isHeld := map[string]func(*v1alpha1.DemoApp) bool{
		"windowed": func(app *v1alpha1.DemoApp) bool { return isHeldBack(releasev1alpha1.ReasonOutsideWindow)(app) },
		"suspended": func(app *v1alpha1.DemoApp) bool {
			return apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, releasev1alpha1.ReasonSuspendedBySpec)
		},
	}
	for _, name := range names {
		ns.Await(name, "held", isHeld[name])
	}
	apps.AwaitNoWork(t, shared)

	before, begin := versions(ns, names), time.Now()
	shared.KillLeader(t, operator)
	operator = cluster.StartOperator(t.Context(), t, shared)
	cluster.AwaitLead(t, operator)
	apps.AwaitNoWork(t, shared)
	assertNoWork(t, begin)
	if after := versions(ns, names); !slices.Equal(before, after) {
		t.Errorf("DemoApps were written:\nbefore %v\nafter  %v", before, after)
	}
	for _, name := range names {
		if app := ns.Await(name, "held", isHeld[name]); apps.Revision(app) != 1 {
			t.Errorf("%s is at revision %d", name, apps.Revision(app))
		}
	}
	ns.AssertRecords(names, "v1 deployed")

	// The new process is at work, and releases the change when the window opens.
	ns.Change("windowed", func(spec *v1alpha1.DemoAppSpec) { spec.UpgradeWindow = nil })
	ns.Change("suspended", func(spec *v1alpha1.DemoAppSpec) { spec.Suspend = false })
	ns.AwaitAll(names, 2)
}
