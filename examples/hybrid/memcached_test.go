// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/helm"
)

// memcached returns a Memcached with a spec; nil is a Memcached without one.
func memcached(spec any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetName("cache")
	if spec != nil {
		object.Object["spec"] = spec
	}
	return object
}

func TestTranslate(t *testing.T) {
	marked := map[string]any{"cache.my.domain/memcached": "cache"}
	tests := map[string]struct {
		spec    any
		want    map[string]any
		wantErr string
	}{
		"no spec": {nil, map[string]any{"podAnnotations": marked}, ""},
		"other values are kept": {
			map[string]any{"replicaCount": int64(2), "podAnnotations": map[string]any{"team": "blue"}},
			map[string]any{"replicaCount": int64(2), "podAnnotations": map[string]any{"team": "blue", "cache.my.domain/memcached": "cache"}},
			"",
		},
		"spec is text":           {"a", nil, "spec: must be an object"},
		"podAnnotations is text": {map[string]any{"podAnnotations": "a"}, nil, "spec.podAnnotations: must be an object"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := memcached(test.spec)
			before := object.DeepCopy()

			got, err := translate(t.Context(), object)

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if !says(err, test.wantErr) {
				t.Errorf("error %v, want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(before, object); diff != "" {
				t.Errorf("the object was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckReplicas(t *testing.T) {
	for replicas, want := range map[int64]string{10: "", 11: "spec.replicaCount: must be at most 10, got 11"} {
		err := checkReplicas(t.Context(), memcached(nil), map[string]any{"replicaCount": replicas}, klog.Background())
		if !says(err, want) {
			t.Errorf("%d replicas: error %v, want %q", replicas, err, want)
		}
	}
}

func TestKeepRevisions(t *testing.T) {
	tests := map[string]struct {
		kept    int
		wantErr string
	}{
		"2":    {2, ""},
		"0":    {0, `"0" is not a number from 1 to 255`},
		"256":  {0, `"256" is not a number`},
		"some": {0, `"some" is not a number`},
	}
	for value, test := range tests {
		t.Run(value, func(t *testing.T) {
			var release helm.Release

			err := keepRevisions(value, &release)

			if release.MaxHistory != test.kept || !says(err, test.wantErr) {
				t.Errorf("MaxHistory %d, error %v; want %d, %q", release.MaxHistory, err, test.kept, test.wantErr)
			}
		})
	}
}

// says reports whether an error has a text; "" stands for no error.
func says(err error, text string) bool {
	if err == nil || text == "" {
		return err == nil && text == ""
	}
	return strings.Contains(err.Error(), text)
}
