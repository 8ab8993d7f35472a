// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/served"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// withThing is a release with an object of a kind that comes and goes.
func withThing(t *testing.T, data string) Release {
	t.Helper()
	return made(t, map[string]string{
		"templates/thing.yaml":     "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: thing\nspec:\n  data: " + data + "\n",
		"templates/configmap.yaml": configMap("config", data),
	})
}

// withoutThing is the same release, without that object.
func withoutThing(t *testing.T, data string) Release {
	t.Helper()
	return made(t, map[string]string{"templates/configmap.yaml": configMap("config", data)})
}

// serveThings serves the kind from now on, or no longer; with the kind go its
// objects.
func (f *fixture) serveThings(serve bool) {
	f.t.Helper()
	if serve {
		f.Serve(thingsResource, thingKind.Kind, true)
	} else {
		if f.Object(thingKind.Kind, "default/thing") != nil {
			f.Remove(thingKind.Kind, "default/thing")
		}
		f.With(func() { delete(f.Kinds, thingsResource) })
	}
	f.Edit("CustomResourceDefinition", "things.example.com", "kubectl", change(time.Now().String(), "spec", "changed"))
	synctest.Wait()
	<-time.After(served.StaleInterval)
}

// TestKindNoLongerServed: objects of a kind that is no longer served are gone. The remaining
// objects of the release can still be changed.
func TestKindNoLongerServed(t *testing.T) {
	gone := func(t *testing.T, test func(*testing.T, *fixture)) {
		t.Helper()
		bubble(t, func(t *testing.T, f *fixture) {
			f.serveThings(true)
			f.must(withThing(t, "one"), ActionInstall, CauseNotInstalled)
			f.serveThings(false)
			f.heard()
			f.TakeRequests()
			test(t, f)
		})
	}
	t.Run("it is drift, and repaired when the kind is back", func(t *testing.T) {
		gone(t, func(t *testing.T, f *fixture) {
			f.Edit("ConfigMap", "default/config", "kubectl", change("theirs", "data", "key"))
			synctest.Wait()
			decision, err := f.reconcile(withThing(t, "one"))
			if decision.Action != ActionRepair || !meta.IsNoMatchError(err) || IsTerminal(err) {
				t.Fatalf("decided on %+v, error %v, want a repair that lacks the kind", decision, err)
			}
			if diff := cmp.Diff([]string{"apply configmaps default/config"}, f.TakeRequests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			f.serveThings(true)
			f.must(withThing(t, "one"), ActionRepair, CauseDrift)
			if f.Object(thingKind.Kind, "default/thing") == nil {
				t.Error("the object is not there again")
			}
			f.must(withThing(t, "one"), ActionNone, "")
		})
	})
	t.Run("upgrade without it", func(t *testing.T) {
		gone(t, func(t *testing.T, f *fixture) {
			f.must(withoutThing(t, "two"), ActionUpgrade, CauseInputsChanged)
			f.must(withoutThing(t, "two"), ActionNone, "")
		})
	})
	t.Run("upgrade with it fails before anything is changed", func(t *testing.T) {
		gone(t, func(t *testing.T, f *fixture) {
			_, err := f.reconcile(withThing(t, "two"))
			if !meta.IsNoMatchError(err) || IsTerminal(err) {
				t.Fatalf("error is %v, want an unknown kind", err)
			}
			if got := f.TakeRequests(); len(got) > 0 {
				t.Errorf("requests were made: %s", got)
			}
		})
	})
	t.Run("rollback to it fails before anything is changed", func(t *testing.T) {
		gone(t, func(t *testing.T, f *fixture) {
			f.must(withoutThing(t, "two"), ActionUpgrade, CauseInputsChanged)
			f.TakeRequests()
			_, err := f.engine.Execute(t.Context(), withoutThing(t, "two"), Decision{Action: ActionRollback, To: 1}, f.baseline)
			if !meta.IsNoMatchError(err) || IsTerminal(err) {
				t.Fatalf("error is %v, want an unknown kind", err)
			}
			if got := f.TakeRequests(); len(got) > 0 {
				t.Errorf("requests were made: %s", got)
			}
		})
	})
	t.Run("uninstall", func(t *testing.T) {
		gone(t, func(t *testing.T, f *fixture) {
			f.uninstall(withThing(t, "one"))
			if f.Object("ConfigMap", "default/config") != nil {
				t.Error("the other object is still there")
			}
		})
	})
}

// TestKindOfUnavailableAPI: an aggregated API that does not answer has not gone, and
// neither have its objects.
func TestKindOfUnavailableAPI(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.serveThings(true)
		f.must(withThing(t, "one"), ActionInstall, CauseNotInstalled)
		silent := true
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if silent && request.Verb == "discover" && request.Key.Name == "/apis/"+thingKind.GroupVersion().String() {
					return apierrors.NewServiceUnavailable("no endpoints")
				}
				return nil
			}
		})
		f.Edit("APIService", "v1.example.com", "kubectl", func(*unstructured.Unstructured) {})
		synctest.Wait()
		<-time.After(served.StaleInterval)
		f.TakeRequests()
		desired := withThing(t, "one")
		observed := f.observe(desired)
		if len(observed.Unobserved) != 1 || !apierrors.IsServiceUnavailable(observed.Unobserved[0].Err) || len(observed.Drifts) > 0 {
			t.Errorf("observed %+v, want that Things cannot be watched", observed)
		}
		_, upgrading := f.engine.Execute(t.Context(), withoutThing(t, "two"), Decision{Action: ActionUpgrade}, f.baseline)
		if got := f.TakeRequests(); len(got) > 0 {
			t.Errorf("requests were made: %s", got)
		}
		uninstalling := f.tryUninstall(desired)
		for name, err := range map[string]error{"upgrade": upgrading, "uninstall": uninstalling} {
			if !apierrors.IsServiceUnavailable(err) || IsTerminal(err) {
				t.Errorf("%s: error is %v, want the API server's", name, err)
			}
		}
		f.With(func() { silent = false })
		f.uninstall(desired)
		if f.Object(thingKind.Kind, "default/thing") != nil || f.Object("ConfigMap", "default/config") != nil {
			t.Error("something of the release is left")
		}
	})
}
