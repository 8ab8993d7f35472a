// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/controller"
)

func keepOwn(annotation string) bool { return strings.HasPrefix(annotation, "own/") }

// identity is the metadata that Slim never changes.
func identity() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1", ResourceVersion: "7", Generation: 3, Finalizers: []string{"example.com/f"}}
}

// described returns an object with metadata of every sort, and with owners.
func described(owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: identity()}
	object.Labels = map[string]string{"app": "a"}
	object.Annotations = map[string]string{"own/requested": "now", "other": "x"}
	object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	object.OwnerReferences = owners
	return object
}

func TestSlim(t *testing.T) {
	yes := true
	owned := described(metav1.OwnerReference{Kind: "App", UID: "2", Controller: &yes})
	hostile := owned.DeepCopy()
	for i := range 1000 {
		hostile.Labels[fmt.Sprint("l", i)] = ""
	}
	reduced := &metav1.PartialObjectMetadata{ObjectMeta: identity()}
	reduced.Annotations = map[string]string{"own/requested": "now"}
	tests := map[string]struct{ object, want *metav1.PartialObjectMetadata }{
		"no owner":                     {described(), reduced},
		"an owner that is none's":      {described(metav1.OwnerReference{Kind: "App", UID: "2"}), reduced},
		"a controller":                 {owned, owned.DeepCopy()},
		"a controller and many labels": {hostile, reduced},
		"nothing to keep":              {&metav1.PartialObjectMetadata{ObjectMeta: identity()}, &metav1.PartialObjectMetadata{ObjectMeta: identity()}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 { // It may be called again.
				controller.Slim(test.object, keepOwn)
				if diff := cmp.Diff(test.want, test.object); diff != "" {
					t.Errorf("object (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestSlimMemory: an object with as much metadata as the API server accepts takes next to nothing.
func TestSlimMemory(t *testing.T) {
	list := func(format string) string {
		var all []string
		for i := range 50_000 {
			all = append(all, strings.ReplaceAll(format, "%d", fmt.Sprintf("%x", i)))
		}
		return strings.Join(all, ",")
	}
	const owner = `{"apiVersion":"v1","kind":"k","name":"n","uid":"%d","controller":true}`
	for name, metadata := range map[string]string{
		"labels":                     `{"labels": {` + list(`"l%d": ""`) + `}}`,
		"annotations":                `{"annotations": {` + list(`"l%d": ""`) + `}}`,
		"owners":                     `{"ownerReferences": [` + list(owner) + `]}`,
		"managed fields":             `{"managedFields": [` + list(`{"manager":"m%d","fieldsV1":{}}`) + `]}`,
		"labels beside a controller": `{"labels": {` + list(`"l%d": ""`) + `}, "ownerReferences": [` + strings.ReplaceAll(owner, "%d", "1") + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			object, before := &metav1.PartialObjectMetadata{}, inUse()
			if err := json.Unmarshal([]byte(`{"metadata": `+metadata+`}`), object); err != nil {
				t.Fatal(err)
			}
			whole := inUse() - before

			controller.Slim(object, keepOwn)

			if took := inUse() - before; whole < 1<<20 || took > 64<<10 {
				t.Errorf("%d bytes of JSON take %d bytes, and %d as they are", len(metadata), took, whole)
			}
			runtime.KeepAlive(object)
		})
	}
}

// inUse returns the memory that is in use now.
func inUse() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}
