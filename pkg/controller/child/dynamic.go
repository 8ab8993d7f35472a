// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/pkg/health"
)

// Dynamic is like [Of], for a kind without Go types. Its children are [Untyped].
func Dynamic(env Informers, client dynamic.Interface, gvk schema.GroupVersionKind, resource schema.GroupVersionResource) (ManagedKind, error) {
	return watched[*unstructured.Unstructured, *unstructured.UnstructuredList](env, client, gvk,
		func(namespace string) dynamicClient {
			return dynamicClient{client.Resource(resource).Namespace(namespace)}
		},
		func(object metav1.Object) health.Health {
			whole, ok := object.(*unstructured.Unstructured)
			if !ok {
				return health.OfTyped(object)
			}
			return health.Of(whole)
		})
}

// dynamicClient is a dynamic client with the methods of a generated one.
type dynamicClient struct{ resource dynamic.ResourceInterface }

func (c dynamicClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*unstructured.Unstructured, error) {
	return c.resource.Get(ctx, name, opts)
}

func (c dynamicClient) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return c.resource.List(ctx, opts)
}

func (c dynamicClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.resource.Watch(ctx, opts)
}

func (c dynamicClient) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
) (*unstructured.Unstructured, error) {
	return c.resource.Patch(ctx, name, pt, data, opts, subresources...)
}

func (c dynamicClient) Create(
	ctx context.Context, object *unstructured.Unstructured, opts metav1.CreateOptions,
) (*unstructured.Unstructured, error) {
	return c.resource.Create(ctx, object, opts)
}

func (c dynamicClient) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return c.resource.Delete(ctx, name, opts)
}

// Untyped is a desired child of a kind without Go types: apiVersion, kind, metadata.name and
// the fields that the operator owns.
type Untyped map[string]any

var _ Desired = Untyped{}

// GetKind implements Desired.
func (u Untyped) GetKind() *string { return u.text("kind") }

// GetAPIVersion implements Desired.
func (u Untyped) GetAPIVersion() *string { return u.text("apiVersion") }

// GetName implements Desired.
func (u Untyped) GetName() *string {
	name, _, err := unstructured.NestedString(u, "metadata", "name")
	if err != nil || name == "" {
		return nil
	}
	return &name
}

// MarshalJSON implements json.Marshaler.
func (u Untyped) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any(u)) }

func (u Untyped) text(field string) *string {
	value, ok := u[field].(string)
	if !ok {
		return nil
	}
	return &value
}
