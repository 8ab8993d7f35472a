// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// endsWhileExecuting makes a pass after which nothing is known of what it did but the
// release, and starts a new process.
func (w *world) endsWhileExecuting(name string) {
	w.t.Helper()
	executing := w.engine.executing
	w.engine.executing = func() {
		w.statusErr = errPlain
		if executing != nil {
			executing()
		}
	}
	w.sync()
	_, _ = w.controller.Reconcile(w.t.Context(), keyOf(name), controller.SpecChange) // A status may be held back, or fail.
	w.engine.executing, w.statusErr = executing, nil
	w.recorder.take()
	w.start(w.controller.chart)
}

// TestWhatTheStatusMissed: a revision that the status does not know of is told of as
// what it is.
func TestWhatTheStatusMissed(t *testing.T) {
	tests := []struct {
		name  string
		world func(t *testing.T) *world
		entry string
		event string
	}{
		{"an install", func(t *testing.T) *world {
			t.Helper()
			w := newWorld(t)
			w.create(newApp("a"))
			return w
		}, `Install Succeeded "SpecGenerationChanged" 1 0`, "a Normal Installed Install Installed revision 1 of chart demo-app 1.0.0 (SpecGenerationChanged)"},
		{"an upgrade", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.change("a", says("other"))
			return w
		}, `Upgrade Succeeded "SpecGenerationChanged" 2 0`, "a Normal Upgraded Upgrade Upgraded to revision 2 of chart demo-app 1.0.0 (SpecGenerationChanged)"},
		{"an upgrade to a newer chart", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.start(testChart(t, "1.1.0"))
			return w
		}, `Upgrade Succeeded "ChartChanged" 2 0`, "a Normal Upgraded Upgrade Upgraded to revision 2 of chart demo-app 1.1.0 (ChartChanged)"},
		{"the retry of an upgrade", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t)
			w.failing(1)
			return w
		}, `Upgrade Succeeded "RetryAfterFailure" 2 0`, "a Normal Upgraded Upgrade Upgraded to revision 2 of chart demo-app 1.0.0 (RetryAfterFailure)"},
		{"a rollback", func(t *testing.T) *world {
			t.Helper()
			w := deployed(t, remediating(0, v1alpha1.RemediationRollback))
			w.failing(1)
			return w
		}, `Rollback Succeeded "Remediation" 3 0`, "a Warning RolledBack Rollback Rolled back with revision 3 of chart demo-app 1.0.0 (Remediation). " +
			"Rolled back to revision 1; a change of the spec starts afresh. The last failure: connection refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := test.world(t)
			w.endsWhileExecuting("a")
			w.passes("a", controller.SpecChange)
			equal(t, "requests", []string{"Reapply a BaselineUnknown", "apply demoapps/status a"}, w.calls.take())
			equal(t, "last entry of the history", test.entry, w.history("a")[0])
			equal(t, "events", []string{test.event}, w.recorder.take())
			s := w.app("a").Status
			equal(t, "last good revision", s.DeployedRelease.Revision, s.LastGoodRevision)
		})
	}
}
