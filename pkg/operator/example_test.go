// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/operator"
)

// A complete operator for one kind. The example is only compiled, because it needs a cluster.
func Example() {
	operator.Main(operator.NewOptions("widget-operator", "v1.0.0", "widget-system"), func(context.Context) ([]operator.Kind, error) {
		return []operator.Kind{widgets()}, nil
	})
}

func widgets() operator.Kind {
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	return operator.Kind{Name: "widget", Resources: []schema.GroupVersionResource{resource}, Build: func(env *operator.Environment) error {
		queue := controller.New(controller.ReconcilerFunc(reconcile), controller.Options{Name: "widget", Metrics: env.Metrics})
		informers, err := env.Informers("Widgets", func(namespace string) (cache.SharedIndexInformer, error) {
			return dynamicinformer.NewFilteredDynamicInformer(env.Clients.Dynamic, resource, namespace, 0, cache.Indexers{}, nil).Informer(), nil
		})
		if err != nil {
			return err
		}
		var synced []controller.NamedSync
		for _, informer := range informers {
			handled, err := controller.AddHandler("widgets", informer, controller.SpecHandler[*unstructured.Unstructured](queue))
			if err != nil {
				return err
			}
			synced = append(synced, handled)
		}
		env.AddController("widget", func(stop, lead context.Context) error { return queue.Run(stop, lead, synced...) }, synced...)
		return nil
	}}
}

func reconcile(context.Context, cache.ObjectName, controller.Reason) (controller.Result, error) {
	return controller.Result{}, nil
}
