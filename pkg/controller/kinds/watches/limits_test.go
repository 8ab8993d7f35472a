// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// items returns a spec with objects of one key.
func items(count int) map[string]any {
	list := make([]any, 0, count)
	for range count {
		list = append(list, map[string]any{"": int64(0)})
	}
	return map[string]any{"size": int64(3), "l": list}
}

// TestSpecBeyondLimits: a spec or metadata beyond the limits is refused in the status, before a
// function of the kind gets it. The release stays as it is, and is uninstalled with the custom
// resource.
func TestSpecBeyondLimits(t *testing.T) {
	many := map[string]string{}
	for _, a := range "abcdefghijklmnopqrstuvwxyz" {
		for _, b := range "abcdefghijklmnopqrstuvwxyz" {
			for _, c := range "abcdefghijklmnop" {
				many[string([]rune{a, b, c})] = ""
			}
		}
	}
	tests := map[string]struct {
		grow func(*unstructured.Unstructured)
		says string
	}{
		"nodes": {
			func(object *unstructured.Unstructured) { object.Object["spec"] = items(7_000) },
			"spec: it has 21006 keys, scalars, lists and objects, and all values of one resource together may have 20000",
		},
		"bytes": {
			func(object *unstructured.Unstructured) {
				object.Object["spec"] = map[string]any{"text": strings.Repeat("x", 1_200_000)}
			},
			"spec: it has 1200015 bytes",
		},
		"labels": {
			func(object *unstructured.Unstructured) { object.SetLabels(many) },
			"too many or too long labels, annotations, owner references or finalizers: metadata: it has ",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kind := caches(t)
			// The release has the name that a field of the spec had.
			kind.ReleaseName = func(object *unstructured.Unstructured) (string, error) {
				name, _, err := unstructured.NestedString(object.Object, "spec", "name")
				return name + object.GetName(), err
			}
			bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
				w.create("default/a", map[string]any{"size": int64(3), "name": "my-"})
				w.change("default/a", test.grow)
				w.has("conditions", w.conditions("default/a"), "Stalled True ValuesInvalid", "Irreconcilable True ErrorGettingValues", "Deployed True InstallSuccessful")
				expect.Contains(w.t, "message", w.message("default/a", "Stalled"), test.says)
				expect.Equal(w.t, "records", []string{"my-a.v1 deployed"}, w.HelmRecords())

				w.Edit("ConfigMap", "default/my-a", "kubectl", func(object *unstructured.Unstructured) { object.Object["data"] = map[string]any{"size": "7"} })
				w.Settle()
				expect.Equal(w.t, "data after drift", "3", w.field("ConfigMap", "default/my-a", "data", "size"))

				w.Delete("Memcached", "default/a")
				w.Settle()
				expect.Equal(w.t, "objects", []string{}, w.Names())
			})
		})
	}
}

// TestSpecWithinLimitsAgain: a spec that was refused is used once it is small enough.
func TestSpecWithinLimitsAgain(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", items(7_000))
		w.has("conditions", w.conditions("default/a"), "Stalled True ValuesInvalid")
		expect.Equal(w.t, "records", []string{}, w.HelmRecords())

		w.change("default/a", func(object *unstructured.Unstructured) { object.Object["spec"] = items(6_000) })

		w.has("conditions", w.conditions("default/a"), "Deployed True InstallSuccessful")
		expect.Equal(w.t, "data", "3", w.field("ConfigMap", "default/a", "data", "size"))
	})
}

// TestPassMemory: a pass over the largest spec within the limits takes less than 20 MiB, including
// the copies in the fake API server.
func TestPassMemory(t *testing.T) {
	inUse := func() int64 {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	kind := caches(t)
	var before, most int64
	kind.PreHooks = []watches.PreHook{func(_ context.Context, object *unstructured.Unstructured, values map[string]any, _ klog.Logger) error {
		most = max(most, inUse())
		runtime.KeepAlive(object)
		runtime.KeepAlive(values)
		return nil
	}}
	spec := items(6_600)
	spec["text"] = strings.Repeat("x", 900_000)
	bubble(t, []watches.ReleaseKind{kind}, func(w *world) {
		w.With(func() {
			w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if request.Verb == "patch" || request.Verb == "create" {
					most = max(most, inUse())
					t.Logf("%s %v %d KiB", request.Verb, request.Key, (inUse()-before)>>10)
				}
				return nil
			}
		})
		before = inUse()
		w.create("default/a", spec)
		w.has("conditions", w.conditions("default/a"), "Deployed True InstallSuccessful")
	})
	if took := most - before; took > 20<<20 {
		t.Errorf("the pass takes %d MiB", took>>20)
	}
}
