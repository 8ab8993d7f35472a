// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// TestObserveHealth checks the health of the objects.
func TestObserveHealth(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := demo(t, nil)
		f.must(desired, ActionInstall, CauseNotInstalled)
		health := func() map[string]status.Status {
			observed := f.observe(desired)
			got := map[string]status.Status{}
			for _, object := range observed.Health {
				got[object.Object.Kind] = object.Status
			}
			return got
		}
		want := map[string]status.Status{
			"ConfigMap": status.CurrentStatus, "Secret": status.CurrentStatus, "Service": status.CurrentStatus, "Deployment": status.InProgressStatus,
		}
		if diff := cmp.Diff(want, health()); diff != "" {
			t.Errorf("health after the install (-want +got):\n%s", diff)
		}
		f.heard()
		f.EditSubresource("Deployment", "default/web", "kube-controller-manager", "status", func(object *unstructured.Unstructured) {
			object.Object["status"] = map[string]any{
				"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1),
				"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
			}
		})
		if diff := cmp.Diff([]string{"health default/web"}, f.heard()); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
		want["Deployment"] = status.CurrentStatus
		if diff := cmp.Diff(want, health()); diff != "" {
			t.Errorf("health with pods (-want +got):\n%s", diff)
		}
	})
}

// TestObserveFails: unknown facts are not guessed.
func TestObserveFails(t *testing.T) {
	t.Run("kind may not be watched", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			f.must(desired, ActionInstall, CauseNotInstalled)
			f.restart()
			f.With(func() {
				f.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
					if object != nil || request.Key.Resource.Resource != "services" {
						return nil
					}
					return apierrors.NewForbidden(request.Key.Resource.GroupResource(), "", errors.New("not granted"))
				}
			})
			started := time.Now()
			observed, err := f.engine.Observe(t.Context(), desired.Key(), f.baseline)
			if err != nil || len(observed.Unobserved) != 1 || observed.Unobserved[0].Kind.Kind != "Service" || !apierrors.IsForbidden(observed.Unobserved[0].Err) {
				t.Errorf("unobserved is %v (%v), want the API server's refusal of Services", observed.Unobserved, err)
			}
			if waited := time.Since(started); waited >= live.SyncTimeout {
				t.Errorf("waited %s for a permission", waited)
			}
			f.expectWatchErrors("services")
		})
	})
	t.Run("watch is broken", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			f.must(desired, ActionInstall, CauseNotInstalled)
			f.restart()
			broken := true
			f.With(func() {
				f.Refuse = func(_ fakeapi.Request, object *unstructured.Unstructured) error {
					if object == nil && broken {
						return apierrors.NewInternalError(errors.New("etcd"))
					}
					return nil
				}
			})
			observed, err := f.engine.Observe(t.Context(), desired.Key(), f.baseline)
			if err != nil || len(observed.Unobserved) != 4 || len(observed.Drifts) > 0 {
				t.Errorf("observed %+v (%v), want four kinds that cannot be watched", observed, err)
			}
			f.heard()
			f.With(func() { broken = false })
			<-time.After(time.Minute) // The watch backs off.
			if heard := f.heard(); !slices.Contains(heard, "health default/web") {
				t.Errorf("heard %v, want that the objects can be observed", heard)
			}
			f.must(desired, ActionNone, CauseNone)
		})
	})
	t.Run("engine has ended", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			f.must(desired, ActionInstall, CauseNotInstalled)
			f.restart()
			f.stop()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := f.engine.Observe(ctx, desired.Key(), f.baseline); !errors.Is(err, ErrNotSynced) {
				t.Errorf("error is %v, want ErrNotSynced", err)
			}
		})
	})
	t.Run("kind is gone", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fixture) {
			desired := demo(t, nil)
			f.must(desired, ActionInstall, CauseNotInstalled)
			baseline := f.baseline
			baseline.Inventory = append(slices.Clone(baseline.Inventory), InventoryEntry{
				ObjectReference: ObjectReference{APIVersion: "example.com/v1", Kind: "Thing", Namespace: "default", Name: "a"},
			})
			observed, err := f.engine.Observe(t.Context(), desired.Key(), baseline)
			want := []Drift{{Object: baseline.Inventory[len(baseline.Inventory)-1].ObjectReference, Kind: DriftMissing, Unserved: true}}
			if err != nil || !observed.BaselineKnown || !slices.Equal(observed.Drifts, want) {
				t.Errorf("observed %+v, %v, want that the object is missing", observed, err)
			}
		})
	})
}

// TestNamespaces: an engine for certain namespaces reads and writes only these namespaces.
func TestNamespaces(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.stop()
		config := f.config()
		config.Namespaces = []string{"default", "second"}
		f.start(config)
		desired := made(t, map[string]string{
			"templates/a.yaml":    configMap("a", "1"),
			"templates/role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web}\n",
		})
		f.must(desired, ActionInstall, CauseNotInstalled)
		second := desired
		second.Namespace, second.Name, second.Chart = "second", "two", testChart(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		if _, err := f.engine.Execute(t.Context(), second, Decision{Action: ActionInstall}, Baseline{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.Remove("ClusterRole", "web")
		synctest.Wait()
		f.must(desired, ActionRepair, CauseDrift)

		far := desired
		far.Name, far.Chart = "far", testChart(t, map[string]string{
			"templates/far.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: far}\n",
		})
		_, err := f.engine.Execute(t.Context(), far, Decision{Action: ActionInstall}, Baseline{})
		_ = wantError[*OutOfScopeError](t, err)
		elsewhere := desired
		elsewhere.Namespace = "far"
		if _, err := f.engine.Execute(t.Context(), elsewhere, Decision{Action: ActionInstall}, Baseline{}); err == nil {
			t.Error("installed into a namespace that is not watched")
		}
		f.uninstall(desired)
		if diff := cmp.Diff([]string{"ConfigMap second/a"}, f.Names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

// TestWatchesEnd: a kind is watched from the first release that needs it to the
// last.
func TestWatchesEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		before := f.Watches()
		kinds := func() int {
			synctest.Wait()
			return f.Watches() - before
		}
		first, second := demo(t, nil), made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
		second.Name = "second"
		f.must(first, ActionInstall, CauseNotInstalled)
		baseline := f.baseline
		f.must(second, ActionInstall, CauseNotInstalled)
		if got := kinds(); got != 4 {
			t.Errorf("%d kinds are watched, want 4", got)
		}
		if _, err := f.engine.Uninstall(t.Context(), first, baseline); err != nil {
			t.Fatal(err)
		}
		if got := kinds(); got != 1 {
			t.Errorf("%d kinds are watched for the second release, want 1", got)
		}
		f.engine.Forget(second.Key())
		if got := kinds(); got != 0 {
			t.Errorf("%d kinds are watched for nobody", got)
		}
		f.must(second, ActionNone, CauseNone)
		if got := kinds(); got != 1 {
			t.Errorf("%d kinds are watched for the second release, want 1", got)
		}
	})
}
