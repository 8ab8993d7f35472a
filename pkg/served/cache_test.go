// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/test/fakeapi"
)

var (
	thingKind      = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	thingsResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
)

// fixture is a cache that runs on a fake API server.
type fixture struct {
	*fakeapi.Server

	t     *testing.T
	cache *Cache
	stop  func()
	// watchErrors has the resources that could not be watched.
	watchErrors []string
}

// cached runs a test with a cache in a synctest bubble.
func cached(t *testing.T, test func(*testing.T, *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{Server: fakeapi.New(t), t: t}
		f.start()
		test(t, f)
		f.stop()
	})
}

func (f *fixture) start() {
	f.t.Helper()
	discoveryClient, err1 := discovery.NewDiscoveryClientForConfigAndClient(f.RESTConfig(), f.HTTPClient())
	metadataClient, err2 := metadata.NewForConfigAndClient(f.RESTConfig(), f.HTTPClient())
	if err := errors.Join(err1, err2); err != nil {
		f.t.Fatal(err)
	}
	f.cache = NewCache(CacheConfig{
		Discovery: discoveryClient, Metadata: metadataClient, Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler),
		OnWatchError: func(watched string, _ error) { f.watchErrors = append(f.watchErrors, watched) },
	})
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.cache.Run(ctx)
	}()
	f.stop = func() {
		cancel()
		<-ended
	}
	synctest.Wait()
}

// TestNewKinds: a CRD or API service that comes is noticed, and many of them
// cause one discovery.
func TestNewKinds(t *testing.T) {
	for _, kind := range []string{"CustomResourceDefinition", "APIService"} {
		t.Run(kind, func(t *testing.T) {
			cached(t, func(t *testing.T, f *fixture) {
				<-time.After(time.Minute)
				if _, err := f.cache.Mapping(thingKind); !meta.IsNoMatchError(err) {
					t.Fatalf("error is %v, want an unknown kind", err)
				}
				f.TakeDiscoveries()
				<-time.After(StaleInterval) // Too soon to ask for an unknown kind again.
				if _, err := f.cache.Mapping(thingKind); !meta.IsNoMatchError(err) || f.TakeDiscoveries() > 0 {
					t.Fatalf("error is %v, want an unknown kind, without asking again", err)
				}
				f.Serve(thingsResource, thingKind.Kind, true)
				for _, name := range []string{"a", "b", "c"} {
					f.Edit(kind, name, "kubectl", func(*unstructured.Unstructured) {})
				}
				synctest.Wait()
				mapping, err := f.cache.Mapping(thingKind)
				if err != nil || mapping.Resource != thingsResource {
					t.Fatalf("mapping = %v, %v", mapping, err)
				}
				once := f.TakeDiscoveries()
				resource, err := f.cache.Resource(thingKind)
				if want := (Resource{thingsResource, true}); err != nil || resource != want {
					t.Errorf("resource = %v, %v, want %v", resource, err, want)
				}
				if again := f.TakeDiscoveries(); once == 0 || again != 0 {
					t.Errorf("%d discovery requests, and then %d, want one discovery", once, again)
				}
			})
		})
	}
}

// TestNewKindsDiscoveredLate: discovery may show the kind of a new CRD with a delay. The cache
// repeats discovery soon, but not forever.
func TestNewKindsDiscoveredLate(t *testing.T) {
	cached(t, func(t *testing.T, f *fixture) {
		<-time.After(time.Minute)
		f.Edit("CustomResourceDefinition", "a", "kubectl", func(*unstructured.Unstructured) {})
		synctest.Wait()
		unknown := func() {
			t.Helper()
			if _, err := f.cache.Mapping(thingKind); !meta.IsNoMatchError(err) {
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
		<-time.After(StaleInterval)
		if unknown(); f.TakeDiscoveries() > 0 {
			t.Error("it still asks each second")
		}
		f.Edit("CustomResourceDefinition", "b", "kubectl", func(*unstructured.Unstructured) {})
		synctest.Wait()
		unknown()
		f.Serve(thingsResource, thingKind.Kind, true)
		<-time.After(StaleInterval)
		if _, err := f.cache.Mapping(thingKind); err != nil {
			t.Error(err)
		}
	})
}

// TestCRDsMayNotBeWatched: without that permission, unknown kinds are still
// looked for.
func TestCRDsMayNotBeWatched(t *testing.T) {
	cached(t, func(t *testing.T, f *fixture) {
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, object *unstructured.Unstructured) error {
				if object == nil && request.Key.Resource.Resource == "customresourcedefinitions" {
					return apierrors.NewForbidden(request.Key.Resource.GroupResource(), "", errors.New("not granted"))
				}
				return nil
			}
		})
		f.stop()
		f.start()
		f.TakeRequests()
		f.Serve(thingsResource, thingKind.Kind, true)
		<-time.After(time.Hour)
		synctest.Wait()
		if got := f.TakeRequests(); len(got) > 0 {
			t.Errorf("it goes on asking: %s", got)
		}
		if want := []string{"customresourcedefinitions.apiextensions.k8s.io"}; !slices.Equal(f.watchErrors, want) {
			t.Errorf("watch errors of %v, want %v", f.watchErrors, want)
		}
		if _, err := f.cache.Mapping(thingKind); err != nil {
			t.Error(err)
		}
	})
}
