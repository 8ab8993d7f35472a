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
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
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

// TestUpgradeWaitsForWindow: a schedule has minutes, so the test waits up to one minute for its window.
func TestUpgradeWaitsForWindow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("web")
	opens := time.Now().Add(20 * time.Second).Truncate(time.Minute).Add(time.Minute)
	app.Spec.UpgradeWindow = opensOnceADay(opens)
	ns.Create(app)
	ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "later" })
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
	if at := app.Status.LastUpgradeAt.Time; at.Before(opens) || at.After(opens.Add(10*time.Second)) {
		t.Errorf("the window opened at %s, and the upgrade came at %s", opens, at)
	}
	if !apps.IsAbsent(app, releasev1alpha1.ConditionUpgradeHeld) {
		t.Errorf("UpgradeHeld is %+v", apps.Condition(app, releasev1alpha1.ConditionUpgradeHeld))
	}
}

func TestForcedUpgradeOutsideTheWindow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("web")
	app.Spec.UpgradeWindow = opensOnceADay(time.Now().Add(12 * time.Hour))
	ns.Create(app)
	ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "later" })
	ns.Await("web", "held", isHeld(releasev1alpha1.ReasonOutsideWindow))
	annotate(t, ns, "web", map[string]string{releasev1alpha1.AnnotationRequestedAt: "now", releasev1alpha1.AnnotationForceAt: "now"})
	app = ns.AwaitReady("web")
	if apps.Revision(app) != 2 || app.Status.LastHandledForceAt != "now" {
		t.Errorf("revision %d, lastHandledForceAt %q", apps.Revision(app), app.Status.LastHandledForceAt)
	}

	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "deleted meanwhile" })
	ns.Await("web", "held", isHeld(releasev1alpha1.ReasonOutsideWindow))
	ns.Delete("web")
	ns.AwaitGone("web")
}

func TestAllHoldingGatesAreListed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("web")
	app.Spec.UpgradeWindow = opensOnceADay(time.Now().Add(12 * time.Hour))
	ns.Create(app)
	ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message, spec.Suspend = "later", true })
	app = ns.Await("web", "held", isHeld(releasev1alpha1.ReasonSuspendedBySpec))
	message := apps.Condition(app, apimeta.ConditionReady).Message
	if !strings.Contains(message, "spec.suspend") || !strings.Contains(message, "upgrade window") ||
		!apps.Has(app, releasev1alpha1.ConditionUpgradeHeld, metav1.ConditionTrue, releasev1alpha1.ReasonOutsideWindow) {
		t.Errorf("Ready says %q; conditions %+v", message, app.Status.Conditions)
	}
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Suspend = false })
	ns.Await("web", "held by the window", isHeld(releasev1alpha1.ReasonOutsideWindow))
}

func TestInvalidSchedule(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	app := apps.Named("web")
	app.Spec.UpgradeWindow = opensOnceADay(time.Now())
	app.Spec.UpgradeWindow.TimeZone = "Europe/Atlantis"
	ns.Create(app)
	app = ns.Await("web", "stalled", func(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, releasev1alpha1.ReasonInvalidSchedule) })
	if message := apps.Condition(app, apimeta.ConditionReady).Message; !strings.Contains(message, "Europe/Atlantis") || len(ns.Records("web")) > 0 {
		t.Errorf("Ready says %q", message)
	}
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.UpgradeWindow.TimeZone = "Europe/Berlin" })
	ns.AwaitReady("web")
}
