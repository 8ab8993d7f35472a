// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// owned reports whether the object is annotated as part of the release. Hooks and files
// under crds/ are not.
func (o *operation) owned(object metav1.Object) bool {
	annotations := object.GetAnnotations()
	return annotations[manifest.ReleaseNameAnnotation] == o.release.Name && annotations[manifest.ReleaseNamespaceAnnotation] == o.release.Namespace
}

// claimed reports whether the object has all of Helm's marks for the release.
func (o *operation) claimed(object metav1.Object) bool {
	return object.GetLabels()[manifest.ManagedByLabel] == manifest.ManagedByHelm && o.owned(object)
}

// claim marks the object as part of the release, as Helm's actions do.
func (o *operation) claim(object *unstructured.Unstructured) {
	manifest.Claim(object, o.release.Namespace, o.release.Name)
	o.markOwner(object)
}

func isHook(info *resource.Info) bool {
	object, err := content(info)
	return err == nil && object.GetAnnotations()[manifest.HookAnnotation] != ""
}

func isCRD(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().GroupKind() == crdKind
}

// claimAll marks the objects of a manifest as part of the release, and watches their
// kinds.
func (o *operation) claimAll(resources kube.ResourceList) error {
	for _, info := range resources {
		object, err := content(info)
		if err != nil {
			return err
		}
		o.claim(object)
	}
	return o.watch(resources)
}
