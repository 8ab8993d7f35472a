// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"fmt"
	"testing"
	"time"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

// history returns a Shop's history: action, outcome, reason, revision and count.
func (w *world) history(name string) []string {
	w.t.Helper()
	var lines []string
	for _, entry := range w.shop(name).Status.History {
		lines = append(lines, fmt.Sprintf("%s %s %q %d %d", entry.Action, entry.Outcome, entry.Reason, entry.Revision, entry.Count))
	}
	return lines
}

func TestHistory(t *testing.T) {
	w := deployed(t)
	w.engine.Failures = []error{errPlain, errPlain}
	w.change("a", func(shop *Shop) { shop.Spec.Message = "new" })
	for range 2 {
		w.clock.Step(time.Minute)
		if _, err := w.pass("a", controller.SpecChange|controller.Retry); err == nil {
			t.Error("no error")
		}
	}
	expect.Equal(t, "failures", &releasev1alpha1.FailureCounts{
		Consecutive: 2, Upgrades: 2, Generation: 2, Action: releasev1alpha1.HistoryUpgrade,
		Inputs: w.shop("a").Status.Failures.Inputs, Chart: w.chart.Digest(),
	}, w.shop("a").Status.Failures)
	w.passes("a", controller.Retry)
	w.engine.Mutate(keyOf("a"), releasetest.Remove("Secret"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "history", []string{
		`Repair Succeeded "DriftDetected" 2 0`,
		`Upgrade Succeeded "RetryAfterFailure" 2 0`,
		`Upgrade Failed "RetryAfterFailure" 2 0`,
		`Upgrade Failed "SpecGenerationChanged" 2 0`,
		`Install Succeeded "SpecGenerationChanged" 1 0`,
	}, w.history("a"))
	expect.Equal(t, "failures in the end", &releasev1alpha1.FailureCounts{Upgrades: 2}, w.shop("a").Status.Failures)
}

// TestHistoryOfFailures: a failure has the reason of its attempt and the revision that it
// left.
func TestHistoryOfFailures(t *testing.T) {
	refused := terminalFailures()[apimeta.ReasonRefused]
	withoutRecord := terminalFailures()[releasev1alpha1.ReasonRenderFailed]
	tests := []struct {
		name     string
		world    func(t *testing.T) *world
		failures []error
		want     []string
	}{
		{"install", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.create(newShop("a"))
			return w
		}, []error{errPlain, errPlain, errPlain}, []string{
			`Install Failed "RetryAfterFailure" 1 2`, `Install Failed "SpecGenerationChanged" 1 0`,
		}},
		{"upgrade to a newer chart", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.start(testChart(t, "1.1.0"))
			return w
		}, []error{refused}, []string{`Upgrade Failed "ChartChanged" 2 0`, `Install Succeeded "SpecGenerationChanged" 1 0`}},
		{"upgrade without a record, after one with a record", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.failing(1)
			w.change("a", says("worse"))
			return w
		}, []error{withoutRecord}, []string{
			`Upgrade Failed "SpecGenerationChanged" 0 0`, `Upgrade Failed "SpecGenerationChanged" 2 0`,
			`Install Succeeded "SpecGenerationChanged" 1 0`,
		}},
		{"forced upgrade without a record", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.change("a", asks("now", "now"))
			return w
		}, []error{withoutRecord}, []string{`Upgrade Failed "UserRequested" 0 0`, `Install Succeeded "SpecGenerationChanged" 1 0`}},
		{"repair", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.engine.Mutate(keyOf("a"), releasetest.Edit("Secret"))
			return w
		}, []error{errPlain}, []string{`Repair Failed "DriftDetected" 0 0`, `Install Succeeded "SpecGenerationChanged" 1 0`}},
		{"rollback", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t, remediating(0, releasev1alpha1.RemediationRollback))
			w.failing(1)
			return w
		}, []error{errPlain}, []string{
			`Rollback Failed "Remediation" 3 0`, `Upgrade Failed "SpecGenerationChanged" 2 0`, `Install Succeeded "SpecGenerationChanged" 1 0`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := test.world(t)
			w.engine.Failures = test.failures
			for range test.failures {
				_, err := w.pass("a", controller.Drift)
				expect.Equal(t, "failed", true, err != nil)
			}
			expect.Equal(t, "history", test.want, w.history("a"))
		})
	}
}

// TestHistoryOfUnhealthyRevision: the revision is recorded as a success first, and then
// once as a failure.
func TestHistoryOfUnhealthyRevision(t *testing.T) {
	w := neverReadyAfterChange(t, 1)
	w.engine.Failures = []error{errPlain}
	_, err := w.pass("a", controller.SpecChange)
	expect.Equal(t, "failed", true, err != nil)
	w.unfinished("a", controller.Retry)
	w.clock.SetTime(began.Add(time.Minute))
	w.change("a", suspended(true))
	for range 2 {
		w.passes("a", controller.SpecChange)
	}
	expect.Equal(t, "history", []string{
		`Upgrade Failed "RetryAfterFailure" 2 0`, `Upgrade Succeeded "RetryAfterFailure" 2 0`,
		`Upgrade Failed "SpecGenerationChanged" 2 0`, `Install Succeeded "SpecGenerationChanged" 1 0`,
	}, w.history("a"))
}

// TestFailuresCountByContent: other content of a source resets the consecutive failures. The
// same content written again does not, and neither does a restart with the same content.
func TestFailuresCountByContent(t *testing.T) {
	for name, unversioned := range map[string]bool{"version of the binding": false, "version of the lifecycle": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.unversioned = unversioned
			w.setSecret("first")
			w.create(newShop("a", fromSecret, remediating(5, releasev1alpha1.RemediationRollback)))
			attempt := func(step string, want int64) {
				t.Helper()
				w.engine.Failures = []error{errPlain}
				_, err := w.pass("a", controller.SpecChange|controller.Retry)
				expect.Equal(t, step+": failed", true, err != nil)
				expect.Equal(t, step, want, w.shop("a").Status.Failures.Consecutive)
			}
			attempt("first", 1)
			attempt("again", 2)
			w.setSecret("first")
			attempt("written again", 3)
			w.setSecret("second")
			attempt("another content", 1)
			w.start(testChart(t, "1.0.0"))
			attempt("after a restart", 2)
			w.setSecret("third")
			w.start(testChart(t, "1.0.0"))
			attempt("another content while no process ran", 1)
		})
	}
}
