// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

// restartWith starts a process whose first list has only an older version of an app.
func (w *world) restartWith(listed *v1alpha1.DemoApp) {
	w.t.Helper()
	w.start(testChart(w.t, "1.0.0"))
	w.sync()
	fill(w.t, w.apps, []runtime.Object{listed})
	w.calls.take()
	w.recorder.take()
}

// TestStaleListAfterRestart: the first list of a process comes from an API server that lags
// behind. It has an older version of the app, or the app that had the name before.
func TestStaleListAfterRestart(t *testing.T) {
	recreate := func(w *world) {
		if app := w.app("a"); app.DeletionTimestamp == nil {
			w.delete("a")
		}
		w.makeAuditNamespace()
		w.passes("a", controller.SpecChange)
		w.create(newApp("a", says("newer")))
		w.passes("a", controller.SpecChange)
	}
	tests := map[string]struct {
		// before prepares the listed version, and after makes the newer one.
		before, after func(w *world)
	}{
		"deleted, and created again": {func(w *world) { w.delete("a") }, recreate},
		"another app of the name":    {func(*world) {}, recreate},
		"an older spec": {func(*world) {}, func(w *world) {
			w.change("a", says("newer"))
			w.passes("a", controller.SpecChange)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)
			test.before(w)
			listed := w.app("a")
			test.after(w)
			living, revision := w.app("a"), w.engine.Release(keyOf("a")).Record.Revision
			audited := len(w.records())
			w.restartWith(listed)

			var requests []string
			for range 3 {
				_, err := w.latePass("a", controller.SpecChange)
				if err != nil && !controller.IsPending(err) {
					t.Errorf("error is %v", err)
				}
				requests = append(requests, w.calls.take()...)
			}

			expect.Equal(t, "requests while the list is stale", []string{"patch demoapps a"}, requests)
			expect.Equal(t, "events", []string(nil), w.recorder.take())
			expect.Equal(t, "audit records", audited, len(w.records()))
			expect.Equal(t, "living app", living, w.app("a"))
			expect.Equal(t, "revision of its release", revision, w.engine.Release(keyOf("a")).Record.Revision)
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests when the cache is up to date", []string(nil), w.calls.take())
		})
	}
}

// TestForgedGenerationDoesNotFreezeARelease: a record says that it is of a later generation.
func TestForgedGenerationDoesNotFreezeARelease(t *testing.T) {
	w := deployed(t)
	w.engine.Release(keyOf("a")).Record.Owner.Generation = 1000
	w.change("a", says("changed"))
	w.restartWith(w.app("a"))

	_, err := w.latePass("a", controller.SpecChange)

	expect.NoError(t, err)
	expect.Equal(t, "requests", []string{"patch demoapps a", "Upgrade a InputsChanged", "apply demoapps/status a"}, w.calls.take())
}
