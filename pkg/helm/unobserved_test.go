// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// conversionFails is the API server's answer to requests for a kind whose conversion webhook is away.
func conversionFails() error {
	return apierrors.NewInternalError(errors.New("conversion webhook for example.com/v1, Kind=Thing failed"))
}

// breakThings makes the API server refuse all requests for Things while broken is true.
func (f *fixture) breakThings(broken *bool) {
	f.With(func() {
		f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
			if *broken && request.Key.Resource == thingsResource {
				return conversionFails()
			}
			return nil
		}
	})
}

// TestUnobservedKind: after a restart, a kind that cannot be listed concerns its own objects. The
// other objects are observed at once and repaired, and a change of them is deployed.
func TestUnobservedKind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.serveThings(true)
		f.must(withThing(t, "one"), ActionInstall, CauseNotInstalled)
		broken := true
		f.breakThings(&broken)
		f.restart()
		started := time.Now()

		observed := f.observe(withThing(t, "one"))

		if waited := time.Since(started); waited > 0 {
			t.Errorf("waited %v for a kind that cannot be listed", waited)
		}
		if len(observed.Unobserved) != 1 || observed.Unobserved[0].Kind.Kind != thingKind.Kind || !apierrors.IsInternalError(observed.Unobserved[0].Err) {
			t.Errorf("unobserved is %v, want Things, with the answer of the API server", observed.Unobserved)
		}
		for _, object := range observed.Health {
			if unknown := object.Object.Kind == thingKind.Kind; unknown != (object.Status == status.UnknownStatus) {
				t.Errorf("%v is %s", object.Object, object.Status)
			}
		}
		f.Edit("ConfigMap", "default/config", "kubectl", change("theirs", "data", "key"))
		synctest.Wait()
		f.must(withThing(t, "one"), ActionRepair, CauseDrift)
		f.must(withThing(t, "one"), ActionNone, CauseNone)
		next := made(t, map[string]string{
			"templates/thing.yaml":     "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: thing\nspec:\n  data: one\n",
			"templates/configmap.yaml": configMap("config", "two"),
		})
		f.must(next, ActionUpgrade, CauseInputsChanged)
		f.heard()

		f.With(func() { broken = false })
		<-time.After(time.Minute) // The watch backs off.

		if heard := f.heard(); !strings.Contains(strings.Join(heard, ","), "health default/") {
			t.Errorf("heard %v, want that the Things can be observed", heard)
		}
		if observed := f.observe(next); len(observed.Unobserved) > 0 || len(observed.Drifts) > 0 {
			t.Errorf("observed %+v", observed)
		}
		f.expectWatchErrors("things.example.com")
	})
}

// TestUnobservedKindWhileRunning: a kind that can no longer be watched is reported after a while, and
// again when it can be watched. Drift of the meantime is then found.
func TestUnobservedKindWhileRunning(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.serveThings(true)
		desired := withThing(t, "one")
		f.must(desired, ActionInstall, CauseNotInstalled)
		broken := true
		f.breakThings(&broken)
		f.heard()
		f.BreakWatches(true)

		<-time.After(5 * time.Second)
		if observed := f.observe(desired); len(observed.Unobserved) > 0 {
			t.Errorf("unobserved is %v after a moment", observed.Unobserved)
		}
		<-time.After(2 * time.Minute)
		if heard := f.heard(); len(heard) != 1 || heard[0] != "health "+desired.Key().String() {
			t.Errorf("heard %v, want that the Things cannot be observed", heard)
		}
		if observed := f.observe(desired); len(observed.Unobserved) != 1 {
			t.Errorf("unobserved is %v, want Things", observed.Unobserved)
		}
		f.With(func() { broken = false })
		f.Remove(thingKind.Kind, "default/thing")
		<-time.After(2 * time.Minute)

		f.must(desired, ActionRepair, CauseDrift)
		f.expectWatchErrors("things.example.com")
	})
}

// TestSlowKind: a kind whose first list times out is unobserved after a time that all releases share.
func TestSlowKind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.serveThings(true)
		desired := withThing(t, "one")
		f.must(desired, ActionInstall, CauseNotInstalled)
		slow := true
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if slow && request.Key.Resource == thingsResource {
					return apierrors.NewTimeoutError("the webhook takes too long", 1)
				}
				return nil
			}
		})
		f.restart()
		started := time.Now()

		observed := f.observe(desired)
		again := f.observe(desired)

		if waited := time.Since(started); waited < 10*time.Second || waited >= live.SyncTimeout {
			t.Errorf("waited %v in two passes, want 10s to %v", waited, live.SyncTimeout)
		}
		for _, observed := range []Snapshot{observed, again} {
			if len(observed.Unobserved) != 1 || !errors.Is(observed.Unobserved[0].Err, ErrNotSynced) {
				t.Errorf("unobserved is %v, want Things", observed.Unobserved)
			}
		}
		f.With(func() { slow = false })
		<-time.After(time.Minute)
		f.must(desired, ActionNone, CauseNone)
		f.expectWatchErrors("things.example.com")
	})
}

// TestPutOffKind: an API server whose conversion webhook is away answers 429 to each watch of the kind,
// after a restart of the operator and while it runs. The kind becomes unobserved sooner than a kind
// without an answer, and observed again when the API server has its webhook back.
func TestPutOffKind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.serveThings(true)
		desired := withThing(t, "one")
		f.must(desired, ActionInstall, CauseNotInstalled)
		away := true
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if away && request.Key.Resource == thingsResource {
					return apierrors.NewTooManyRequests("storage is (re)initializing", 1)
				}
				return nil
			}
		})
		f.restart()
		started := time.Now()

		observed := f.observe(desired)

		// The pauses between the watches have jitter.
		if waited := time.Since(started); waited < 10*time.Second || waited >= live.SyncTimeout {
			t.Errorf("waited %v, want 10s to %v", waited, live.SyncTimeout)
		}
		if len(observed.Unobserved) != 1 || !strings.Contains(observed.Unobserved[0].Err.Error(), "429 Too Many Requests") {
			t.Errorf("unobserved is %v, want Things", observed.Unobserved)
		}
		f.With(func() { away = false })
		<-time.After(time.Minute)
		if heard := f.heard(); !strings.Contains(strings.Join(heard, ","), "health default/") {
			t.Errorf("heard %v, want that the Things can be observed", heard)
		}
		f.must(desired, ActionNone, CauseNone)

		f.With(func() { away = true })
		f.BreakWatches(true)
		<-time.After(2 * time.Minute)
		if observed := f.observe(desired); len(observed.Unobserved) != 1 {
			t.Errorf("unobserved is %v while the watch is put off, want Things", observed.Unobserved)
		}
		f.With(func() { away = false })
		f.Remove(thingKind.Kind, "default/thing")
		<-time.After(2 * time.Minute)
		f.must(desired, ActionRepair, CauseDrift)
	})
}

// TestStoppedRendering: a process that stops ends a rendering before anything is written.
func TestStoppedRendering(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		stop, cancel := context.WithCancel(t.Context())
		cancel()
		desired := made(t, map[string]string{
			"templates/a.yaml": `{{ range until 3000 }}{{ $_ := htpasswd "a" "b" }}{{ end }}` + configMap("a", "1"),
		})
		f.TakeRequests()

		_, err := f.engine.Execute(WithStop(t.Context(), stop), desired, Decision{Action: ActionInstall, Cause: CauseNotInstalled}, Baseline{})

		if !errors.Is(err, ErrStopped) || IsTerminal(err) {
			t.Errorf("error is %v, want %v", err, ErrStopped)
		}
		wantRequests(t, f)
	})
}
