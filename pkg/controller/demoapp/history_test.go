// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

func TestRemember(t *testing.T) {
	entry := func(minute int, outcome v1alpha1.HistoryOutcome, revision, count int64) v1alpha1.HistoryEntry {
		return v1alpha1.HistoryEntry{
			Time: metav1.NewTime(began.Add(time.Duration(minute) * time.Minute)), Action: v1alpha1.HistoryUpgrade,
			Outcome: outcome, Revision: revision, Count: count,
		}
	}
	ok, failed := v1alpha1.HistorySucceeded, v1alpha1.HistoryFailed
	full := []v1alpha1.HistoryEntry{entry(5, ok, 5, 0), entry(4, ok, 4, 0), entry(3, ok, 3, 0), entry(2, ok, 2, 0), entry(1, ok, 1, 0)}
	tests := []struct {
		name    string
		history []v1alpha1.HistoryEntry
		next    v1alpha1.HistoryEntry
		want    []v1alpha1.HistoryEntry
	}{
		{"the first", nil, entry(1, ok, 1, 0), []v1alpha1.HistoryEntry{entry(1, ok, 1, 0)}},
		{"the newest comes first", full[4:], entry(2, failed, 2, 0), []v1alpha1.HistoryEntry{entry(2, failed, 2, 0), entry(1, ok, 1, 0)}},
		{"again", []v1alpha1.HistoryEntry{entry(2, failed, 2, 0)}, entry(3, failed, 2, 0), []v1alpha1.HistoryEntry{entry(3, failed, 2, 2)}},
		{"and again", []v1alpha1.HistoryEntry{entry(3, failed, 2, 2)}, entry(4, failed, 2, 0), []v1alpha1.HistoryEntry{entry(4, failed, 2, 3)}},
		{"the oldest goes", full, entry(6, ok, 6, 0), append([]v1alpha1.HistoryEntry{entry(6, ok, 6, 0)}, full[:4]...)},
		{"a repetition pushes nothing out", full, entry(6, ok, 5, 0), append([]v1alpha1.HistoryEntry{entry(6, ok, 5, 2)}, full[1:]...)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "history", test.want, remember(test.history, test.next))
		})
	}
}

// history is that of an app: what was done, how it ended, why, the revision, and how
// many times.
func (w *world) history(name string) []string {
	w.t.Helper()
	var lines []string
	for _, entry := range w.app(name).Status.History {
		lines = append(lines, fmt.Sprintf("%s %s %q %d %d", entry.Action, entry.Outcome, entry.Reason, entry.Revision, entry.Count))
	}
	return lines
}

func TestHistory(t *testing.T) {
	w := deployed(t)
	w.engine.failures = []error{errPlain, errPlain}
	w.change("a", func(app *v1alpha1.DemoApp) { app.Spec.Message = "new" })
	for range 2 {
		w.clock.Step(time.Minute)
		if _, err := w.pass("a", controller.SpecChange|controller.Retry); err == nil {
			t.Error("no error")
		}
	}
	equal(t, "failures", &v1alpha1.FailureCounts{Consecutive: 2, Upgrades: 2, Generation: 2, Inputs: w.app("a").Status.Failures.Inputs},
		w.app("a").Status.Failures)
	w.passes("a", controller.Retry)
	w.engine.meddle("a", removes("Secret"))
	w.passes("a", controller.Drift)
	equal(t, "history", []string{
		`Repair Succeeded "DriftDetected" 2 0`,
		`Upgrade Succeeded "RetryAfterFailure" 2 0`,
		`Upgrade Failed "" 0 2`,
		`Install Succeeded "SpecGenerationChanged" 1 0`,
	}, w.history("a"))
	equal(t, "failures in the end", &v1alpha1.FailureCounts{Upgrades: 2}, w.app("a").Status.Failures)
}
