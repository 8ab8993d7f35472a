// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/metacache"
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
		informer, err := metacache.NewInformer(client, corev1.SchemeGroupVersion.WithResource("pods"), namespace,
			func(options *metav1.ListOptions) { options.LabelSelector = label },
			func(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
				pod := metacache.Identity(whole)
				pod.Labels, pod.DeletionTimestamp = map[string]string{label: whole.Labels[label]}, whole.DeletionTimestamp
				return pod
			})
		return informer, errors.Join(err, informer.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}))
	})
	if err != nil {
		return nil, err
	}
	return &Pods{label: label, informers: informers}, nil
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
