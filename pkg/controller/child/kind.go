// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/shardcache"
	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// FieldManager owns the fields of children.
	FieldManager = "demoapp-controller"
	// ManagedByLabel is the label of all children, with the value FieldManager. Informers of
	// children select by this label, so objects of other owners cost nothing.
	ManagedByLabel = ssa.ManagedByLabel
)

// byOwner is the index of children by the UID of their controller.
const byOwner = "child.owner"

// TypedClient is the part of a generated typed client, for one namespace, that children
// need. L is the type of lists.
type TypedClient[T metav1.Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
	) (T, error)
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Informers hands out the informers of the process. All kinds that name an informer share it. The
// name identifies the informer.
type Informers interface {
	Informers(
		name string, build func(namespace string) (cache.SharedIndexInformer, error),
	) (map[string]cache.SharedIndexInformer, error)
	// Selection returns the shards whose objects are cached; nil for all. Informers of objects that
	// only passes in the same namespace read select them.
	Selection() *shardcache.Selection
}

// ManagedKind is one kind of children, with its informers and its client.
type ManagedKind struct {
	gvk       schema.GroupVersionKind
	informers map[string]cache.SharedIndexInformer
	views     overlay.Views[metav1.Object]
	client    func(namespace string) client
	health    func(metav1.Object) health.Health
	// condition returns Observed.Condition. It is nil for kinds without WithCondition.
	condition func(metav1.Object) Condition
	// template is the path of the part that decides which pods run; nil if no pods run. awaits is the reason
	// why only a change of the owner changes it, or empty.
	template []string
	awaits   string
}

// client is a typed client with its type erased.
type client interface {
	ssa.Client
	delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Of returns a kind of children. clients returns the client of a namespace, from clientset. For
// example: Of(env, kube, appsv1.SchemeGroupVersion.WithKind("Deployment"),
// kube.AppsV1().Deployments). The process watches the kind once, however many kinds of owners have
// children of it.
func Of[T metav1.Object, L runtime.Object, C TypedClient[T, L]](
	env Informers, clientset any, gvk schema.GroupVersionKind, clients func(namespace string) C,
) (ManagedKind, error) {
	return watched[T, L](env, clientset, gvk, clients, health.OfTyped)
}

// watched returns a kind of children with new informers.
func watched[T metav1.Object, L runtime.Object, C TypedClient[T, L]](
	env Informers, clientset any, gvk schema.GroupVersionKind, clients func(namespace string) C,
	healthOf func(metav1.Object) health.Health,
) (ManagedKind, error) {
	informers, err := env.Informers("children of kind "+gvk.GroupKind().String(), func(namespace string) (cache.SharedIndexInformer, error) {
		return newInformer[T, L](env.Selection(), gvk, clientset, clients(namespace), healthOf)
	})
	if err != nil {
		return ManagedKind{}, err
	}
	return newKind(informers, gvk, clients, healthOf)
}

// WatchedBy is like Of, for a custom resource of this operator, which the process already watches
// without the label of children. Such a kind reports the condition Ready, so a child without this
// condition is not healthy yet.
func WatchedBy[T metav1.Object, L runtime.Object, C TypedClient[T, L]](
	informers map[string]cache.SharedIndexInformer, gvk schema.GroupVersionKind, clients func(namespace string) C,
) (ManagedKind, error) {
	return newKind(informers, gvk, clients, func(object metav1.Object) health.Health { return health.OfReporting(object, gvk) })
}

// WithCondition returns a copy of the kind that also observes one condition of each child, which
// conditionOf returns. A change of the condition queues the owner.
func (k ManagedKind) WithCondition(conditionOf func(metav1.Object) Condition) ManagedKind {
	k.condition = conditionOf
	return k
}

// WithHealth returns a copy of the kind whose children have the health that healthOf returns.
func (k ManagedKind) WithHealth(healthOf func(metav1.Object) health.Health) ManagedKind {
	k.health = healthOf
	return k
}

func newKind[T metav1.Object, L runtime.Object, C TypedClient[T, L]](
	informers map[string]cache.SharedIndexInformer, gvk schema.GroupVersionKind, clients func(namespace string) C,
	healthOf func(metav1.Object) health.Health,
) (ManagedKind, error) {
	k := ManagedKind{
		gvk: gvk, health: healthOf, informers: informers, views: overlay.NewViews[metav1.Object](informers), template: templatePath(gvk),
		client: func(namespace string) client { return untyped[T, L]{clients(namespace)} },
	}
	if gvk.Kind == "StatefulSet" {
		k.awaits = DatabaseRuns
	}
	for _, informer := range informers {
		if _, indexed := informer.GetIndexer().GetIndexers()[byOwner]; !indexed {
			if err := informer.AddIndexers(cache.Indexers{byOwner: controllerUID}); err != nil {
				return ManagedKind{}, fmt.Errorf("index children of kind %s: %w", gvk.Kind, err)
			}
		}
	}
	return k, nil
}

// untyped implements client.
type untyped[T metav1.Object, L runtime.Object] struct{ typed TypedClient[T, L] }

// Get implements ssa.Client.
func (c untyped[T, L]) Get(ctx context.Context, name string) (metav1.Object, error) {
	return c.typed.Get(ctx, name, metav1.GetOptions{})
}

// Patch implements ssa.Client.
func (c untyped[T, L]) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions,
) (metav1.Object, error) {
	return c.typed.Patch(ctx, name, pt, data, opts)
}

// CheckCreate implements ssa.Client. A field that the Go type does not have is not sent, so it is an
// error here.
func (c untyped[T, L]) CheckCreate(ctx context.Context, object *unstructured.Unstructured, options metav1.CreateOptions) error {
	typed, ok := any(object).(T)
	if !ok {
		if typed, ok = zeroObject[T]().(T); !ok {
			return fmt.Errorf("unexpected %T", typed)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	_, err := c.typed.Create(ctx, typed, options)
	return err
}

func (c untyped[T, L]) delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return c.typed.Delete(ctx, name, opts)
}

// newInformer watches the children of one kind in a namespace, and caches only the fields that a
// Set reads.
func newInformer[T metav1.Object, L runtime.Object](
	shards *shardcache.Selection, gvk schema.GroupVersionKind, clientset any, typed TypedClient[T, L], healthOf func(metav1.Object) health.Health,
) (cache.SharedIndexInformer, error) {
	informer := shardcache.NewInformer(shards, typed, clientset, zeroObject[T](),
		func(options *metav1.ListOptions) { options.LabelSelector = ManagedByLabel + "=" + FieldManager },
		cache.SharedIndexInformerOptions{ObjectDescription: "children of kind " + gvk.Kind, Indexers: cache.Indexers{}})
	watched := endingInformer{informer, &health.Ends{}}
	return watched, informer.SetTransform(func(object any) (any, error) {
		if _, done := object.(*Observed); done {
			return object, nil
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		reduced := reduce(accessor, healthOf)
		watched.ends.Note(reduced, reduced.Health.Ended)
		return reduced, nil
	})
}

// endingInformer is an informer with the objects that ended, and may be gone.
type endingInformer struct {
	cache.SharedIndexInformer

	ends *health.Ends
}

// endOf returns the result of a child of which the owner has a record, and that is gone.
func (k ManagedKind) endOf(namespace string, record childv1alpha1.AppliedChild) health.End {
	if record.Ended != "" {
		return health.End(record.Ended)
	}
	informer, watched := k.informers[namespace]
	if !watched {
		informer = k.informers[metav1.NamespaceAll]
	}
	if ending, ok := informer.(endingInformer); ok {
		return ending.ends.Of(namespace, types.UID(record.UID))
	}
	return ""
}

// zeroObject returns an empty object of the type that the pointer type T points to.
func zeroObject[T any]() runtime.Object {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(runtime.Object)
}

// observed returns the newest known version of a child, or nil.
func (k ManagedKind) observed(namespace, name string) *Observed {
	object, ok := k.views.In(namespace).Get(namespace, name)
	if !ok {
		return nil
	}
	return k.observe(object)
}

// isDoubted reports whether another client may have changed a child without a visible change of its
// fingerprint.
func (k ManagedKind) isDoubted(namespace, name string) bool {
	view := k.views.In(namespace)
	object, ok := view.Get(namespace, name)
	return ok && view.IsDoubted(object)
}

// ownedBy returns the newest known children of an owner.
func (k ManagedKind) ownedBy(owner metav1.Object) []*Observed {
	view := k.views.In(owner.GetNamespace())
	var owned []*Observed
	for _, object := range view.List(byOwner, string(owner.GetUID()), func(o metav1.Object) bool { return metav1.IsControlledBy(o, owner) }) {
		if child := k.observe(object); metav1.IsControlledBy(child, owner) {
			owned = append(owned, child)
		}
	}
	return owned
}

func controllerUID(object any) ([]string, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if ref := metav1.GetControllerOfNoCopy(accessor); ref != nil {
		return []string{string(ref.UID)}, nil
	}
	return nil, nil
}
