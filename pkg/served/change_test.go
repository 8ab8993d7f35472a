// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMayServeOthers(t *testing.T) {
	established := []metav1.ManagedFieldsEntry{{Manager: "kube-apiserver", Subresource: "status", Time: &metav1.Time{Time: time.Unix(100, 0)}}}
	annotated := []metav1.ManagedFieldsEntry{{Manager: "injector", Time: &metav1.Time{Time: time.Unix(200, 0)}}}
	for _, test := range []struct {
		name   string
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		{"nothing", func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "1" }, false},
		{"annotation", func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{"beat": "2"} }, false},
		{"label", func(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{"beat": "2"} }, false},
		{"finalizer", func(o *metav1.PartialObjectMetadata) { o.Finalizers = []string{"example.com/keep"} }, false},
		{"annotation, with its manager", func(o *metav1.PartialObjectMetadata) {
			o.Annotations, o.ManagedFields = map[string]string{"beat": "2"}, slices.Concat(annotated, established)
		}, false},
		{"spec", func(o *metav1.PartialObjectMetadata) { o.Generation++ }, true},
		{"spec and annotation", func(o *metav1.PartialObjectMetadata) { o.Generation++; o.Annotations = map[string]string{"beat": "2"} }, true},
		{"status", func(o *metav1.PartialObjectMetadata) { o.ManagedFields[0].Time = &metav1.Time{Time: time.Unix(101, 0)} }, true},
		{"status within one second", func(*metav1.PartialObjectMetadata) {}, true},
		{"status and annotation, in one event", func(o *metav1.PartialObjectMetadata) {
			o.ManagedFields[0].Time, o.Annotations = &metav1.Time{Time: time.Unix(101, 0)}, map[string]string{"beat": "2"}
		}, true},
		{"another object", func(o *metav1.PartialObjectMetadata) { o.UID, o.Annotations = "2", map[string]string{"beat": "2"} }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			was := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: "things.example.com", UID: "1", ResourceVersion: "1", Generation: 1,
				Annotations: map[string]string{"beat": "1"}, ManagedFields: established,
			}}
			is := was.DeepCopy()
			is.ResourceVersion = "2"
			test.change(is)

			if got := mayServeOthers(reduce(was), reduce(is)); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
