// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
)

// Pods are the pods of the owners of one kind. The pods have a label whose value is the name of
// their owner. They are not children: a child, such as a Deployment, creates them. Only metadata of
// pods with the label is watched, so other pods cost nothing.
type Pods struct {
	label     string
	informers map[string]cache.SharedIndexInformer
}

// NewPods returns the pods with the label.
func NewPods(env Informers, client metadata.Interface, label string) (*Pods, error) {
	informers, err := env.Informers("pods with label "+label, func(namespace string) (cache.SharedIndexInformer, error) {
		informer := metadatainformer.NewFilteredMetadataInformer(client, corev1.SchemeGroupVersion.WithResource("pods"), namespace, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			func(options *metav1.ListOptions) { options.LabelSelector = label }).Informer()
		return informer, informer.SetTransform(func(object any) (any, error) { return reducePod(object, label), nil })
	})
	if err != nil {
		return nil, err
	}
	return &Pods{label: label, informers: informers}, nil
}

// reducePod keeps the metadata that Pods reads. Tenants write the rest, which can be large.
func reducePod(object any, label string) any {
	whole, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
		Labels: map[string]string{label: whole.Labels[label]}, DeletionTimestamp: whole.DeletionTimestamp,
	}}
}

// Watch queues an owner when one of its pods is created, begins to be deleted or is gone (reason
// HealthChange).
func (p *Pods) Watch(loop Loop) error {
	owners := func(pod *metav1.PartialObjectMetadata) []cache.ObjectName {
		return []cache.ObjectName{cache.NewObjectName(pod.Namespace, pod.Labels[p.label])}
	}
	why := func(before, after *metav1.PartialObjectMetadata) controller.Reason {
		if p.ownerOf(before) != p.ownerOf(after) {
			return controller.HealthChange
		}
		return 0
	}
	for _, informer := range p.informers {
		synced, err := controller.AddHandler("pods with label "+p.label, informer, controller.MapHandler(loop.Queue(), owners, why))
		if err != nil {
			return err
		}
		loop.Await(synced)
	}
	return nil
}

// Names returns the names of the pods of an owner, sorted. Pods that are being deleted are left
// out.
func (p *Pods) Names(owner cache.ObjectName) []string {
	cached := controller.Scoped[*metav1.PartialObjectMetadata]{}
	for namespace, informer := range p.informers {
		cached[namespace] = informer.GetIndexer()
	}
	var names []string
	for _, pod := range cached.ByIndex(owner.Namespace, cache.NamespaceIndex, owner.Namespace) {
		if p.ownerOf(pod) == owner.Name {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ownerOf returns the name of a pod's owner. It is empty for a pod that is gone or being deleted.
func (p *Pods) ownerOf(pod *metav1.PartialObjectMetadata) string {
	if pod == nil || pod.DeletionTimestamp != nil {
		return ""
	}
	return pod.Labels[p.label]
}
