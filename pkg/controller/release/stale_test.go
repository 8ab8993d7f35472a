// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"testing"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

// restartWith starts a process whose first list has only an older version of an shop.
func (w *world) restartWith(listed *Shop) {
	w.t.Helper()
	w.start(testChart(w.t, "1.0.0"))
	w.sync()
	expect.NoError(w.t, w.informer.GetIndexer().Replace([]any{listed}, ""))
	w.calls.Take()
	w.recorder.Take()
}

// TestStaleListAfterRestart: the first list of a process comes from an API server that lags
// behind. It has an older version of the Shop, or the Shop that had the name before.
func TestStaleListAfterRestart(t *testing.T) {
	recreate := func(w *world) {
		if shop := w.shop("a"); shop.DeletionTimestamp == nil {
			w.delete("a")
		}
		w.passes("a", controller.SpecChange)
		w.create(newShop("a", says("newer")))
		w.passes("a", controller.SpecChange)
	}
	tests := map[string]struct {
		// before prepares the listed version, and after makes the newer one.
		before, after func(w *world)
	}{
		"deleted, and created again": {func(w *world) { w.delete("a") }, recreate},
		"another Shop of the name":   {func(*world) {}, recreate},
		"an older spec": {func(*world) {}, func(w *world) {
			w.change("a", says("newer"))
			w.passes("a", controller.SpecChange)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)
			test.before(w)
			listed := w.shop("a")
			test.after(w)
			living, revision := w.shop("a"), w.engine.Release(keyOf("a")).Record.Revision
			w.restartWith(listed)

			var requests []string
			for range 3 {
				_, err := w.latePass("a", controller.SpecChange)
				if err != nil && !controller.IsPending(err) {
					t.Errorf("error is %v", err)
				}
				requests = append(requests, w.calls.Take()...)
			}

			expect.Equal(t, "requests while the list is stale", []string{"patch shops a"}, requests)
			expect.Equal(t, "events", []string(nil), w.recorder.Take())
			expect.Equal(t, "living Shop", living, w.shop("a"))
			expect.Equal(t, "revision of its release", revision, w.engine.Release(keyOf("a")).Record.Revision)
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "requests when the cache is up to date", []string(nil), w.calls.Take())
		})
	}
}

// TestForgedGenerationDoesNotFreezeARelease: a record says that it is of a later generation.
func TestForgedGenerationDoesNotFreezeARelease(t *testing.T) {
	w := deployed(t)
	w.engine.Release(keyOf("a")).Record.Owner.Generation = 1000
	w.change("a", says("changed"))
	w.restartWith(w.shop("a"))

	_, err := w.latePass("a", controller.SpecChange)

	expect.NoError(t, err)
	expect.Equal(t, "requests", []string{"patch shops a", "Upgrade a InputsChanged", "apply shops/status a"}, w.calls.Take())
}
