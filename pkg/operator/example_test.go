// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/operator"
)

// A complete operator for one kind. The example is only compiled, because it needs a cluster.
func Example() {
	stop, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(stop, restore)
	options := operator.NewOptions("widget-operator", "v1.0.0", "widget-system")
	options.AddFlags(pflag.CommandLine)
	pflag.Parse()
	options.SetupLogging(os.Stderr)
	if err := operator.Run(stop, *options, widgets()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
