// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxChildEntries limits the labels, annotations and owner references of a cached child. An entry
// takes up to 10 times the memory of its text.
const maxChildEntries = 1000

// Slim drops the metadata of an object that no controller reads: labels, owner references, managed
// fields, and the annotations that keep does not select. Tenants choose their number. Use Slim in
// the transform of an informer.
//
// An object that has a controller keeps all metadata, because its owner compares the metadata. If
// the metadata has too many entries, the entries and the controller reference are dropped. The
// owner then does not treat the object as its child.
func Slim(object metav1.Object, keep func(annotation string) bool) {
	entries := len(object.GetLabels()) + len(object.GetAnnotations()) + len(object.GetOwnerReferences())
	if metav1.GetControllerOfNoCopy(object) != nil && entries <= maxChildEntries {
		return
	}
	kept := map[string]string{}
	for name, value := range object.GetAnnotations() {
		if keep(name) {
			kept[name] = value
		}
	}
	if len(kept) == 0 {
		kept = nil
	}
	object.SetFinalizers(slices.Clone(object.GetFinalizers())) // Without unused room.
	object.SetAnnotations(kept)
	object.SetLabels(nil)
	object.SetOwnerReferences(nil)
	object.SetManagedFields(nil)
}
