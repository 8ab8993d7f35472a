// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/shardcache"
)

// LabeledObject is an object that Labeled watches.
type LabeledObject interface {
	controller.Object
	runtime.Object
}

// Labeled are objects of one kind that have a label whose value is the name of their owner. They
// are not children: other controllers create them, such as pods, or they outlive their owner, such
// as volume claims. Only objects with the label are watched, and only the fields that reduce keeps
// are cached.
type Labeled[T LabeledObject] struct {
	name, label string
	reduce      func(whole T, metadata metav1.ObjectMeta) T
	informers   map[string]cache.SharedIndexInformer
	views       overlay.Views[T]
	// inherited is the backoff of [Labeled.Inherit].
	inherited controller.Corrections[childKey]
}

// byLabel is the index of labeled objects by namespace and owner.
const byLabel = "child.label"

// NewLabeled returns the objects with the label. clients returns the client of a namespace, from
// clientset. reduce returns an object with the given metadata, and with the required fields of
// whole.
func NewLabeled[T LabeledObject, L runtime.Object, C shardcache.Client[L]](
	env Informers, resource, label string, clientset any, clients func(namespace string) C,
	reduce func(whole T, metadata metav1.ObjectMeta) T,
) (*Labeled[T], error) {
	l := &Labeled[T]{name: resource + " with label " + label, label: label, reduce: reduce}
	indexers := cache.Indexers{byLabel: func(object any) ([]string, error) {
		if labeled, ok := object.(T); ok {
			return []string{cache.ObjectName{Namespace: labeled.GetNamespace(), Name: labeled.GetLabels()[label]}.String()}, nil
		}
		return nil, nil
	}}
	var err error
	l.informers, err = env.Informers(l.name, func(namespace string) (cache.SharedIndexInformer, error) {
		informer := shardcache.NewInformer(env.Selection(), clients(namespace), clientset, zeroObject[T](),
			func(options *metav1.ListOptions) { options.LabelSelector = label },
			cache.SharedIndexInformerOptions{ObjectDescription: l.name, Indexers: indexers})
		return informer, informer.SetTransform(func(object any) (any, error) {
			if whole, ok := object.(T); ok {
				return l.reduced(whole), nil
			}
			return nil, fmt.Errorf("%s: unexpected %T", l.name, object)
		})
	})
	if err != nil {
		return nil, err
	}
	l.views = overlay.NewViews[T](l.informers)
	return l, nil
}

// reduced drops all fields that no reader needs, which limits the data that other clients can put
// into the cache. It is idempotent.
func (l *Labeled[T]) reduced(whole T) T {
	metadata := metav1.ObjectMeta{
		Namespace: whole.GetNamespace(), Name: whole.GetName(), UID: whole.GetUID(), ResourceVersion: whole.GetResourceVersion(),
		DeletionTimestamp: whole.GetDeletionTimestamp(), Labels: map[string]string{l.label: whole.GetLabels()[l.label]},
	}
	maps.Copy(metadata.Labels, Inherited(whole))
	if value, ok := whole.GetLabels()[ManagedByLabel]; ok {
		metadata.Labels[ManagedByLabel] = value
	}
	if ref := metav1.GetControllerOf(whole); ref != nil {
		metadata.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	return l.reduce(whole, metadata)
}

// Get returns the newest known version of an object.
func (l *Labeled[T]) Get(namespace, name string) (T, bool) {
	return l.views.In(namespace).Get(namespace, name)
}

// Of returns the objects of an owner, in no particular order.
func (l *Labeled[T]) Of(owner cache.ObjectName) []T {
	return l.views.In(owner.Namespace).List(byLabel, owner.String(), func(object T) bool { return l.ownerOf(object) == owner })
}

// Wrote records the API server's answer to a write of this process, which the cache may not show
// yet.
func (l *Labeled[T]) Wrote(object T) {
	l.views.In(object.GetNamespace()).Wrote(l.reduced(object))
}

func (l *Labeled[T]) ownerOf(object T) cache.ObjectName {
	return cache.NewObjectName(object.GetNamespace(), object.GetLabels()[l.label])
}

// Watch queues an owner when one of its objects is created, changes in a cached field, or is
// deleted (reason HealthChange). Writes of this process queue nothing.
func (l *Labeled[T]) Watch(loop Loop) error {
	for namespace, informer := range l.informers {
		synced, err := controller.AddHandler(l.name, informer, l.handler(l.views[namespace], loop.Queue()))
		if err != nil {
			return err
		}
		loop.Await(synced)
	}
	return nil
}

// handler handles the events of one informer.
func (l *Labeled[T]) handler(view *overlay.View[T], queue controller.Enqueuer) overlay.Handler[T] {
	enqueue := func(object T) {
		if owner := l.ownerOf(object); owner.Name != "" { // The name is empty for an object without the label.
			queue.Enqueue(owner, controller.HealthChange)
		}
	}
	return overlay.Handler[T]{
		View:  view,
		Added: func(object, _ T) { enqueue(object) },
		Updated: func(before, after T) {
			if !sameButVersion(before, after) {
				enqueue(before)
				enqueue(after)
			}
		},
		Deleted: func(object T, _ bool) { enqueue(object) },
	}
}

func sameButVersion[T LabeledObject](before, after T) bool {
	unversioned := func(object T) runtime.Object {
		copied := object.DeepCopyObject()
		if accessor, ok := copied.(metav1.Object); ok {
			accessor.SetResourceVersion("")
		}
		return copied
	}
	return apiequality.Semantic.DeepEqual(unversioned(before), unversioned(after))
}
