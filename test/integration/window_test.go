// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// opensOnceADay returns a window that opens at a time of the day, for long enough.
func opensOnceADay(at time.Time) *releasev1alpha1.UpgradeWindow {
	at = at.UTC()
	return &releasev1alpha1.UpgradeWindow{
		Schedule: fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()), Duration: metav1.Duration{Duration: 20 * time.Minute},
	}
}

// TestUpgradeWaitsForWindow: a schedule has minutes, so the test waits up to one minute for its
// window.
func TestUpgradeWaitsForWindow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("web")
	app.Spec.UpgradeWindow = opensOnceADay(time.Now().Add(12 * time.Hour))
	ns.Create(app)
	ns.AwaitReady("web")
	opens := time.Now().Add(30 * time.Second).Truncate(time.Minute).Add(time.Minute)
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message, spec.UpgradeWindow = "later", opensOnceADay(opens) })
	app = ns.Await("web", "held", isHeld(releasev1alpha1.ReasonOutsideWindow))
	message := apps.Condition(app, releasev1alpha1.ConditionUpgradeHeld).Message
	if want := opens.UTC().Format(time.RFC3339); !strings.Contains(message, want) || apps.Revision(app) != 1 {
		t.Errorf("revision %d is held with %q, without %s", apps.Revision(app), message, want)
	}
	ns.AwaitEvent("web", "Held", releasev1alpha1.ReasonOutsideWindow, "which opens at")
	writeOver(t, ns, "web")
	ns.AwaitEvent("web", "DriftCorrected", "ConfigMap web (changed)")

	// The next minute may be later than the timeout of a test's wait.
	cluster.Eventually(t.Context(), t, "window about to open", func(context.Context) (bool, error) {
		return time.Until(opens) < 30*time.Second, nil
	})
	app = ns.Await("web", "upgraded", func(app *v1alpha1.DemoApp) bool { return apps.IsReady(app) && apps.Revision(app) == 2 })
	// The wait above bounds how late it comes.
	if at := app.Status.LastUpgradeAt.Time; at.Before(opens) {
		t.Errorf("the window opened at %s, and the upgrade came at %s", opens, at)
	}
	if !apps.IsAbsent(app, releasev1alpha1.ConditionUpgradeHeld) {
		t.Errorf("UpgradeHeld is %+v", apps.Condition(app, releasev1alpha1.ConditionUpgradeHeld))
	}
}
