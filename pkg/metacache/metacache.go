// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metacache makes informers of the metadata of objects that cache only the metadata that is
// read. Tenants write the rest, which can be large.
package metacache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/shardcache"
)

// NewInformer returns an informer of the metadata of the objects of a resource in a namespace, of
// the selected shards. selected sets the selectors of lists and watches; nil selects all objects.
// The informer caches what keep returns for an object.
func NewInformer[T any](
	shards *shardcache.Selection, client metadata.Interface, resource schema.GroupVersionResource, namespace string,
	selected func(*metav1.ListOptions), keep func(whole *metav1.PartialObjectMetadata) T,
) (cache.SharedIndexInformer, error) {
	informer := shardcache.NewInformer(shards, client.Resource(resource).Namespace(namespace), client, &metav1.PartialObjectMetadata{}, selected,
		cache.SharedIndexInformerOptions{ObjectDescription: "metadata of " + resource.GroupResource().String(), Indexers: cache.Indexers{}})
	return informer, informer.SetTransform(func(object any) (any, error) {
		if whole, ok := object.(*metav1.PartialObjectMetadata); ok {
			return keep(whole), nil
		}
		return object, nil
	})
}

// Identity returns an object with only the namespace, name, UID and resourceVersion of whole.
func Identity(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
	}}
}

// ReleaseRecordType is the type of the Secrets in which Helm stores release records.
const ReleaseRecordType = "helm.sh/release.v1"

// ExceptReleaseRecords selects all Secrets except Helm's release records. No spec references the
// records, which are many and change often.
func ExceptReleaseRecords(options *metav1.ListOptions) {
	options.FieldSelector = fields.OneTermNotEqualSelector("type", ReleaseRecordType).String()
}
