// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/fakeapi"
)

// looking is a release whose chart looks up the ConfigMap "other" for its data.
func looking(t *testing.T) Release {
	t.Helper()
	return made(t, map[string]string{"templates/configmap.yaml": configMap("config",
		`{{ dig "data" "key" "nothing" (lookup "v1" "ConfigMap" .Release.Namespace "other") }}`)})
}

const lookedUp = "get configmaps default/other"

func lookupsIn(requests []string) int {
	return len(slices.DeleteFunc(requests, func(request string) bool { return request != lookedUp }))
}

// TestLookup: each rendering asks for the object, and for nothing else.
func TestLookup(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*fixture)
		want    string
	}{
		"found":     {func(f *fixture) { f.Edit("ConfigMap", "default/other", "kubectl", change("theirs", "data", "key")) }, "theirs"},
		"not there": {func(*fixture) {}, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				tc.prepare(f)
				if _, err := f.engine.mapper.current(); err != nil {
					t.Fatal(err)
				}
				f.TakeDiscoveries()
				f.TakeRequests()
				f.must(looking(t), ActionInstall, CauseNotInstalled)
				if got := lookupsIn(f.TakeRequests()); got != 1 {
					t.Errorf("%d lookups, want 1", got)
				}
				if got := f.TakeDiscoveries(); got != 0 {
					t.Errorf("%d discovery requests for what is known", got)
				}
				got, _, err := unstructured.NestedString(f.Object("ConfigMap", "default/config").Object, "data", "key")
				if err != nil || got != tc.want {
					t.Errorf("the chart found %q, %v, want %q", got, err, tc.want)
				}
				f.must(looking(t), ActionNone, "")
				if got := f.TakeRequests(); len(got) > 0 {
					t.Errorf("requests though nothing changed: %s", got)
				}
			})
		})
	}
}

// TestLookupFails: a failed lookup is transient, and not an error of the chart.
func TestLookupFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		for _, tc := range []struct {
			name  string
			fault fakeapi.Fault
			is    func(error) bool
		}{
			{"refused", fakeapi.FailBefore, apierrors.IsInternalError},
			{"lost", fakeapi.LoseAnswer, func(err error) bool { return err != nil }},
		} {
			f.With(func() {
				f.Fault = func(request fakeapi.Request) fakeapi.Fault {
					if request.String() == lookedUp {
						return tc.fault
					}
					return fakeapi.NoFault
				}
			})
			f.TakeRequests()
			_, err := f.reconcile(looking(t))
			var render *RenderError
			if !tc.is(err) || IsTerminal(err) || errors.As(err, &render) {
				t.Errorf("%s: error is %v (%T), want that of the request", tc.name, err, err)
			}
			if got := slices.DeleteFunc(f.TakeRequests(), func(request string) bool { return request == lookedUp }); len(got) > 0 {
				t.Errorf("%s: more requests were made: %s", tc.name, got)
			}
		}
		f.With(func() { f.Fault = nil })
		f.must(looking(t), ActionInstall, CauseNotInstalled)
	})
}

// TestDiscovered distinguishes discovery requests from requests for objects.
func TestDiscovered(t *testing.T) {
	got := map[string]string{}
	for _, path := range []string{"/api", "/api/v1", "/api/v1/pods", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/apps/v1/deployments", "/version"} {
		if version, ok := discovered(path); ok {
			got[path] = version
		}
	}
	if diff := cmp.Diff(map[string]string{"/api/v1": "v1", "/apis/apps/v1": "apps/v1"}, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
