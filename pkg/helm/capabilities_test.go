// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/served"
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

// TestNewKindsChangeCapabilities: the capabilities follow the kinds of the API server.
func TestNewKindsChangeCapabilities(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		<-time.After(time.Minute)
		f.Serve(thingsResource, thingKind.Kind, true)
		f.Edit("CustomResourceDefinition", "a", "kubectl", func(*unstructured.Unstructured) {})
		synctest.Wait()
		capabilities, err := f.engine.mapper.current()
		if err != nil || !capabilities.APIVersions.Has("example.com/v1/Thing") {
			t.Errorf("capabilities lack the new kind: %v, %v", capabilities, err)
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

// TestSilentAPIKeepsCapabilities: an aggregated API that does not answer is still there. A template that
// did not see it would leave out objects, and the upgrade would delete them.
func TestSilentAPIKeepsCapabilities(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.serveThings(true)
		if _, err := f.engine.mapper.current(); err != nil {
			t.Fatal(err)
		}
		before, err := f.engine.mapper.currentDigest()
		if err != nil {
			t.Fatal(err)
		}
		f.With(func() {
			f.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if request.Verb == "discover" && request.Key.Name == "/apis/"+thingKind.GroupVersion().String() {
					return apierrors.NewServiceUnavailable("no endpoints")
				}
				return nil
			}
		})
		f.Edit("APIService", "v1.example.com", "kubectl", func(*unstructured.Unstructured) {})
		synctest.Wait()
		<-time.After(served.StaleInterval)

		capabilities, err := f.engine.mapper.current()

		if err != nil || !capabilities.APIVersions.Has("example.com/v1/Thing") || !capabilities.APIVersions.Has("example.com/v1") {
			t.Errorf("capabilities lack the kind: %v, %v", capabilities, err)
		}
		if after, err := f.engine.mapper.currentDigest(); err != nil || after != before {
			t.Errorf("the digest is %s, %v, want %s", after, err, before)
		}
		f.restart()
		capabilities, err = f.engine.mapper.current()
		if err != nil || !capabilities.APIVersions.Has("example.com/v1") {
			t.Errorf("capabilities of a new process lack the version: %v, %v", capabilities, err)
		}
	})
}
