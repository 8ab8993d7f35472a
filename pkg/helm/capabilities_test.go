// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/fakeapi"
)

var (
	thingKind      = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	thingsResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
)

func TestCapabilities(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		first, err := f.engine.mapper.current()
		if err != nil {
			t.Fatal(err)
		}
		if first.KubeVersion.Version != "v1.36.3" || !first.APIVersions.Has("apps/v1/Deployment") || first.APIVersions.Has("example.com/v1") {
			t.Errorf("capabilities are %+v", first)
		}
		first.KubeVersion.Version = "v0"
		f.TakeDiscoveries()
		second, err := f.engine.mapper.current()
		if err != nil {
			t.Fatal(err)
		}
		if second.KubeVersion.Version != "v1.36.3" {
			t.Errorf("what one chart changes, the next one sees: %+v", second)
		}
		if got := f.TakeDiscoveries(); got != 0 {
			t.Errorf("%d discovery requests for what is known", got)
		}
	})
}

// TestNewKinds: a CRD or API service that comes is noticed, and many of them
// cause one discovery.
func TestNewKinds(t *testing.T) {
	for _, kind := range []string{"CustomResourceDefinition", "APIService"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				<-time.After(time.Minute)
				if _, err := f.engine.mapper.mapping(thingKind); !meta.IsNoMatchError(err) {
					t.Fatalf("error is %v, want an unknown kind", err)
				}
				f.TakeDiscoveries()
				<-time.After(staleInterval) // Too soon to ask for an unknown kind again.
				if _, err := f.engine.mapper.mapping(thingKind); !meta.IsNoMatchError(err) || f.TakeDiscoveries() > 0 {
					t.Fatalf("error is %v, want an unknown kind, without asking again", err)
				}
				f.Serve(thingsResource, thingKind.Kind, true)
				for _, name := range []string{"a", "b", "c"} {
					f.Edit(kind, name, "kubectl", func(*unstructured.Unstructured) {})
				}
				synctest.Wait()
				mapping, err := f.engine.mapper.mapping(thingKind)
				if err != nil || mapping.Resource != thingsResource {
					t.Fatalf("mapping = %v, %v", mapping, err)
				}
				once := f.TakeDiscoveries()
				namespaced, err := f.engine.mapper.namespaced(thingKind)
				if err != nil || !namespaced {
					t.Errorf("namespaced = %t, %v", namespaced, err)
				}
				if again := f.TakeDiscoveries(); once == 0 || again != 0 {
					t.Errorf("%d discovery requests, and then %d, want one discovery", once, again)
				}
				capabilities, err := f.engine.mapper.current()
				if err != nil || !capabilities.APIVersions.Has("example.com/v1/Thing") {
					t.Errorf("capabilities lack the new kind: %v, %v", capabilities, err)
				}
			})
		})
	}
}

// TestNewKindsDiscoveredLate: discovery may show the kind of a new CRD with a delay. The engine
// repeats discovery soon, but not forever.
func TestNewKindsDiscoveredLate(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		<-time.After(time.Minute)
		f.Edit("CustomResourceDefinition", "a", "kubectl", func(*unstructured.Unstructured) {})
		synctest.Wait()
		unknown := func() {
			t.Helper()
			if _, err := f.engine.mapper.mapping(thingKind); !meta.IsNoMatchError(err) {
				t.Fatalf("error is %v, want an unknown kind", err)
			}
		}
		unknown()
		f.TakeDiscoveries()
		if unknown(); f.TakeDiscoveries() > 0 {
			t.Error("it asks again at once")
		}
		<-time.After(settlingTime)
		unknown()
		f.TakeDiscoveries()
		<-time.After(staleInterval)
		if unknown(); f.TakeDiscoveries() > 0 {
			t.Error("it still asks each second")
		}
		f.Edit("CustomResourceDefinition", "b", "kubectl", func(*unstructured.Unstructured) {})
		synctest.Wait()
		unknown()
		f.Serve(thingsResource, thingKind.Kind, true)
		<-time.After(staleInterval)
		if _, err := f.engine.mapper.mapping(thingKind); err != nil {
			t.Error(err)
		}
	})
}

// TestDiscoveryFails: an operation without capabilities fails, and is no fault
// of the chart.
func TestDiscoveryFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		broken := true
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if request.Verb == "discover" && broken {
					return apierrors.NewServiceUnavailable("starting")
				}
				return nil
			}
		})
		f.restart()
		_, err := f.reconcile(demo(t, nil))
		if !apierrors.IsServiceUnavailable(err) || IsTerminal(err) {
			t.Errorf("error is %v, want the API server's", err)
		}
		f.With(func() { broken = false })
		f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
	})
}

// TestCRDsMayNotBeWatched: without that permission, unknown kinds are still
// looked for.
func TestCRDsMayNotBeWatched(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
				if object == nil && request.Key.Resource.Resource == "customresourcedefinitions" {
					return apierrors.NewForbidden(request.Key.Resource.GroupResource(), "", errors.New("not granted"))
				}
				return nil
			}
		})
		f.restart()
		f.TakeRequests()
		f.Serve(thingsResource, thingKind.Kind, true)
		<-time.After(time.Hour)
		if got := f.TakeRequests(); len(got) > 0 {
			t.Errorf("it goes on asking: %s", got)
		}
		f.expectWatchErrors("customresourcedefinitions.apiextensions.k8s.io")
		if _, err := f.engine.mapper.mapping(thingKind); err != nil {
			t.Error(err)
		}
	})
}
