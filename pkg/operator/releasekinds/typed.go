// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasekinds

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/operator"
)

// Typed registers a release kind with Go types. resource is the plural of the kind. The kind needs no
// generated client: Typed sets Client and, unless the definition has one, FieldManager. It also sets
// the reader of Sources, Dependencies, and the limits of the rollout that choices lacks.
func Typed[T kind.Object[T], S any](
	engine *Engine, options Options, resource string, definition kind.Definition[T, S], binding release.Binding[T, S], choices release.Options[T],
) operator.Kind {
	gvr := definition.GroupVersionKind.GroupVersion().WithResource(resource)
	return operator.Kind{Name: definition.Name, Resources: []schema.GroupVersionResource{gvr}, Build: func(env *operator.Environment) error {
		shared, err := engine.Get(env)
		if err != nil {
			return err
		}
		if choices.Sources.Reader, err = engine.Sources(env); err != nil {
			return err
		}
		choices.Dependencies = engine.Dependencies(env)
		choices.Rollout.Limits.Active = cmp.Or(choices.Rollout.Limits.Active, options.Rollout.Active)
		choices.Rollout.Limits.Failed = cmp.Or(choices.Rollout.Limits.Failed, options.Rollout.Failed)
		definition.FieldManager = cmp.Or(definition.FieldManager, env.Name())
		definition.Client = func(namespace string) controller.Patcher[T] {
			return typedClient[T]{env.Clients.Dynamic.Resource(gvr).Namespace(namespace)}
		}
		informers, err := env.Informers(gvr.GroupResource().String(), func(namespace string) (cache.SharedIndexInformer, error) {
			informer := dynamicinformer.NewFilteredDynamicInformer(env.Clients.Dynamic, gvr, namespace, 0, cache.Indexers{}, nil).Informer()
			return informer, informer.SetTransform(func(object any) (any, error) {
				if whole, ok := object.(*unstructured.Unstructured); ok {
					return typed[T](whole)
				}
				return object, nil
			})
		})
		if err != nil {
			return err
		}
		loop, err := release.NewLoop(definition, kind.Deps{
			Informers: informers, Recorder: env.Recorder(scheme.Scheme), Metrics: env.Metrics, Clock: clock.RealClock{},
			ResyncPeriod: cmp.Or(options.ResyncPeriod, 10*time.Minute), Workers: options.Workers,
			Namespaces: env.NamespaceMetadata, Refuse: options.Refuse, Shards: env.Shards,
		}, shared, binding, choices)
		if err != nil {
			return err
		}
		engine.Start(env)
		env.AddSharded(definition.Name, loop.Run, loop.Synced()...)
		return nil
	}}
}

// typedClient is a client of objects of type T in one namespace.
type typedClient[T any] struct{ dynamic.ResourceInterface }

// Patch implements [controller.Patcher].
func (c typedClient[T]) Patch(
	ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (T, error) {
	patched, err := c.ResourceInterface.Patch(ctx, name, patchType, data, options, subresources...)
	if err != nil {
		var none T
		return none, err
	}
	return typed[T](patched)
}

// typed converts an object to T, a pointer to a type.
func typed[T any](object *unstructured.Unstructured) (T, error) {
	converted, ok := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if !ok {
		return converted, fmt.Errorf("%T is no pointer", converted)
	}
	return converted, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, converted)
}
