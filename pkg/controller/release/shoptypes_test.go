// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Shop has the types of the example of a release kind. Code generation makes its methods and its
// client for a real kind.
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   ShopSpec   `json:"spec"`
	Status ShopStatus `json:"status"`
}

// ShopSpec is the desired state of a Shop.
type ShopSpec struct {
	releasev1alpha1.ReleasePolicy `json:",inline"`

	Size int64 `json:"size"`

	// The fields below are for the tests of single passes, see worldBinding.

	// Message is a value of the release. Comment is not a value.
	Message string `json:"message,omitempty"`
	Comment string `json:"comment,omitempty"`
	// WaitFor is a Shop that has to be deployed before a change.
	WaitFor string `json:"waitFor,omitempty"`
	// FromSecret says that the release has a value from a Secret.
	FromSecret bool `json:"fromSecret,omitempty"`
	// Optional says that the release depends on a kind that the cluster may lack.
	Optional bool `json:"optional,omitempty"`
}

// ShopStatus is the observed state of a Shop.
type ShopStatus struct {
	releasev1alpha1.ReleaseStatus `json:",inline"`
}

// DeepCopy returns a copy.
func (s *Shop) DeepCopy() *Shop {
	copied := &Shop{TypeMeta: s.TypeMeta, ObjectMeta: *s.ObjectMeta.DeepCopy()}
	copied.Spec = s.Spec
	copied.Spec.ReleasePolicy = *s.Spec.ReleasePolicy.DeepCopy()
	copied.Status = ShopStatus{*s.Status.ReleaseStatus.DeepCopy()}
	return copied
}

// DeepCopyObject implements runtime.Object.
func (s *Shop) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// shopClient is the client of Shops in one namespace.
type shopClient struct{ dynamic.ResourceInterface }

// Patch implements controller.Patcher.
func (c shopClient) Patch(
	ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*Shop, error) {
	object, err := c.ResourceInterface.Patch(ctx, name, patchType, data, options, subresources...)
	if err != nil {
		return nil, err
	}
	return shopOf(object)
}

func shopOf(object *unstructured.Unstructured) (*Shop, error) {
	shop := &Shop{}
	return shop, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, shop)
}
