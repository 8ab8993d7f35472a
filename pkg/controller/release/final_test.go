// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/expect"
)

// clusterFailures are errors that may end without a change of the inputs.
func clusterFailures() map[string]error {
	object := helm.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: "a"}
	return map[string]error{
		"a template read the cluster": &helm.ClusterReadError{Err: &helm.RenderError{Chart: "shop", Err: errPlain}},
		"a manifest from the cluster": &helm.ClusterReadError{Err: &helm.OutOfScopeError{Object: object}},
		"a policy refuses an object":  &helm.RefusedError{Object: object, Err: errPlain},
		"an object of another owner":  &helm.OwnershipConflictError{Object: object, Holder: "their tool", Seen: "theirs"},
		"a quota or a permission":     fmt.Errorf("apply: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errPlain)),
		"a kind that is not served":   fmt.Errorf("apply: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Widget"}}),
		"any other error":             errPlain,
	}
}

// givenUp returns a world with a change of "a" that failed and was given up or rolled back.
func givenUp(t *testing.T, strategy releasev1alpha1.RemediationStrategy, failure error) *world {
	t.Helper()
	w := deployed(t, remediating(0, strategy))
	w.change("a", says("other"))
	w.engine.Failures = []error{failure}
	if _, err := w.pass("a", controller.SpecChange); err == nil {
		t.Fatal("no error")
	}
	w.passes("a", controller.Retry)
	w.calls.Take()
	w.recorder.Take()
	return w
}

// stepTo sets the clock to a time relative to the next attempt.
func (w *world) stepTo(after time.Duration) {
	w.t.Helper()
	at := w.shop("a").Status.Failures.RetryAt
	if at == nil {
		w.t.Fatal("no attempt follows")
	}
	w.clock.SetTime(at.Add(after))
}

// TestEndOfTheCauseEndsTheFailure: a change that was given up or rolled back because of the cluster
// is tried again at growing pauses, in any process. It needs no change of the object.
func TestEndOfTheCauseEndsTheFailure(t *testing.T) {
	for _, strategy := range []releasev1alpha1.RemediationStrategy{releasev1alpha1.RemediationNone, releasev1alpha1.RemediationRollback} {
		for name, failure := range clusterFailures() {
			t.Run(string(strategy)+"/"+name, func(t *testing.T) {
				w := givenUp(t, strategy, failure)
				ready, deployed := w.conditions("a")["Ready"], w.shop("a").Status.DeployedRelease.Revision
				pause := time.Duration(0)
				for attempt := range 10 {
					w.stepTo(-time.Second)
					w.passes("a", controller.PeriodicResync)
					expect.Equal(t, "operations before the time", []string(nil), w.operations())
					w.stepTo(0)
					if attempt == 5 {
						w.start(w.chart)
					}
					w.engine.Failures = []error{failure}
					_, err := w.pass("a", controller.PeriodicResync)
					expect.Equal(t, "the attempt failed", true, err != nil && !controller.IsTerminal(err))
					expect.Equal(t, "one operation", 1, len(slices.DeleteFunc(w.operations(), func(call string) bool { return strings.HasPrefix(call, "patch ") })))
					result := w.passes("a", controller.Retry)
					rolledBack := []string{"Rollback a Failed"}
					if strategy == releasev1alpha1.RemediationNone || deployed == 1 {
						rolledBack = nil
					}
					expect.Equal(t, "operations of the next pass", rolledBack, w.operations())
					expect.Equal(t, "Ready", ready, w.conditions("a")["Ready"])
					next := w.shop("a").Status.Failures.RetryAt.Sub(w.clock.Now())
					if next < pause*7/10 || next > 35*time.Minute || result.RequeueAfter > next+time.Second {
						t.Errorf("pause is %s after %s, and the next pass in %s", next, pause, result.RequeueAfter)
					}
					if deployed > 1 && next < 50*time.Second {
						t.Errorf("a rollback and the next attempt are %s apart", next)
					}
					pause = next
				}
				for _, event := range w.recorder.Take() {
					expect.Equal(t, "an event without a change: "+event, true, strings.Contains(event, "RolledBack"))
				}
				expect.Equal(t, "pause in the end is long", true, pause > 4*time.Minute)

				w.stepTo(0)
				w.passes("a", controller.PeriodicResync)

				expect.Equal(t, "conditions in the end", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True UpgradeSucceeded"), w.conditions("a"))
				expect.Equal(t, "consecutive failures", int64(0), w.shop("a").Status.Failures.Consecutive)
				expect.Equal(t, "no further attempt", true, w.shop("a").Status.Failures.RetryAt == nil)
			})
		}
	}
}

// TestInputsAloneDecide: what no change of the cluster can end waits for a change of the inputs.
func TestInputsAloneDecide(t *testing.T) {
	failures := map[string]error{
		"a template":          &helm.RenderError{Chart: "shop", Err: errPlain},
		"values":              &helm.RenderError{Chart: "shop", Err: fmt.Errorf("%w: replicas", chart.ErrInvalidValues)},
		"a chart":             fmt.Errorf("load: %w", chart.ErrInvalid),
		"an object elsewhere": &helm.OutOfScopeError{},
		"a large release":     &helm.ReleaseTooLargeError{Err: errPlain},
		"a hook":              errHook,
	}
	for _, strategy := range []releasev1alpha1.RemediationStrategy{releasev1alpha1.RemediationNone, releasev1alpha1.RemediationRollback} {
		for name, failure := range failures {
			t.Run(string(strategy)+"/"+name, func(t *testing.T) {
				w := givenUp(t, strategy, failure)
				for range 10 {
					w.clock.Step(24 * time.Hour)
					w.passes("a", controller.PeriodicResync)
				}
				expect.Equal(t, "operations", []string(nil), w.operations())
				expect.Contains(t, "message", w.message("a", apimeta.ConditionReady), "; a change of the spec starts afresh")
			})
		}
	}
}

// TestOtherCapabilitiesStartAfresh: a template that demands a kind is rendered as soon as the API
// server serves it.
func TestOtherCapabilitiesStartAfresh(t *testing.T) {
	reads := &helm.ClusterReadError{Err: &helm.RenderError{Chart: "shop", Err: errPlain}, Capabilities: true}
	tests := map[string]struct {
		change func(*Shop)
		err    error
	}{
		"without remediation": {func(*Shop) {}, reads},
		"given up":            {remediating(0, releasev1alpha1.RemediationNone), reads},
		"an unserved object": {
			remediating(0, releasev1alpha1.RemediationRollback),
			&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Widget"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := deployed(t, test.change)
			w.engine.CapabilitiesDigest = "before"
			w.change("a", says("other"))
			w.engine.Failures = []error{test.err}
			_, err := w.pass("a", controller.SpecChange)
			expect.Equal(t, "failed", true, err != nil)
			_, _ = w.pass("a", controller.Retry)
			w.operations()
			w.passes("a", controller.Drift)
			w.engine.CapabilitiesDigest = "" // Unknown for a moment.
			w.passes("a", controller.Drift)
			expect.Equal(t, "operations with the same capabilities", []string(nil), w.operations())

			w.engine.CapabilitiesDigest = "after"
			w.passes("a", controller.Drift)

			expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
			expect.Equal(t, "capabilities are forgotten", "", w.shop("a").Status.Failures.Capabilities)
		})
	}
}

// TestRenderingThatReadTheClusterIsRetriedSoon: without remediation, too, at growing pauses.
func TestRenderingThatReadTheClusterIsRetriedSoon(t *testing.T) {
	w := deployed(t)
	w.change("a", says("other"))
	var pauses []time.Duration
	for range 8 {
		w.engine.Failures = []error{&helm.ClusterReadError{Err: &helm.RenderError{Chart: "shop", Err: errPlain}}}
		result, err := w.pass("a", controller.SpecChange)
		expect.Equal(t, "terminal", true, controller.IsTerminal(err))
		pauses = append(pauses, result.RequeueAfter)
		w.clock.Step(result.RequeueAfter)
	}
	expect.Equal(t, "the first pause is short", true, pauses[0] < 12*time.Second)
	expect.Equal(t, "the last pause is long", true, pauses[7] > 4*time.Minute && pauses[7] < 6*time.Minute)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
}

// TestRefusedPodsAreTriedAgain: a quota that refuses the pods of a revision is no fault of the
// revision. Other causes of a timeout are final, because each attempt restarts pods.
func TestRefusedPodsAreTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		refused string
		again   bool
	}{"refused": {"exceeded quota", true}, "crashing": {"", false}} {
		t.Run(name, func(t *testing.T) {
			w := deployed(t, remediating(0, releasev1alpha1.RemediationRollback), func(shop *Shop) { shop.Spec.WaitForReady = true })
			ill := releasetest.SetHealth(status.InProgressStatus, "Available: 0/1", 0)
			w.engine.Executing = func() {
				w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
					ill(r)
					r.Health.PodsRefused = test.refused
				})
			}
			w.change("a", says("other"))
			w.unfinished("a", controller.SpecChange)
			w.engine.Executing = func() { w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.CurrentStatus, "", 1)) }
			w.clock.Step(helm.DefaultTimeout)
			for range 3 {
				w.unfinished("a", controller.PeriodicResync)
			}
			expect.Equal(t, "Ready", "False RolledBack", w.conditions("a")["Ready"])
			w.clock.Step(time.Hour)
			for range 2 {
				w.unfinished("a", controller.PeriodicResync)
			}
			expect.Equal(t, "Ready later", map[bool]string{true: "True Healthy", false: "False RolledBack"}[test.again], w.conditions("a")["Ready"])
		})
	}
}

// TestLateAttemptPassesGates: a window and a suspension hold it as they hold any change.
func TestLateAttemptPassesGates(t *testing.T) {
	w := givenUp(t, releasev1alpha1.RemediationRollback, clusterFailures()["a policy refuses an object"])
	w.change("a", func(shop *Shop) { shop.Spec.Suspend = true })
	w.passes("a", controller.SpecChange)
	w.operations()
	w.clock.Step(24 * time.Hour)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "operations", []string(nil), w.operations())
}

// TestUnavailableServerDoesNotEndTheWait: an attempt that reached no server is not counted.
func TestUnavailableServerDoesNotEndTheWait(t *testing.T) {
	w := givenUp(t, releasev1alpha1.RemediationNone, clusterFailures()["a policy refuses an object"])
	w.stepTo(0)
	before := w.shop("a").Status.Failures.Consecutive
	w.engine.Failures = []error{&helm.UnavailableError{Err: errPlain}}
	_, err := w.pass("a", controller.PeriodicResync)
	expect.Equal(t, "is retried", true, errors.Is(err, errPlain) && !controller.IsTerminal(err))
	expect.Equal(t, "failures", before, w.shop("a").Status.Failures.Consecutive)
	w.passes("a", controller.Retry)
	expect.Equal(t, "Ready", "True Healthy", w.conditions("a")["Ready"])
}
