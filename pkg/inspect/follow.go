// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/metacache"
)

// followed are the resources whose changes show that a tree may have changed: every action of a
// controller of Kubernetes ends in a pod or in an event.
var followed = []schema.GroupVersionResource{{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "events"}}

// Follow calls changed whenever the tree of an object of the operator in a namespace may have
// changed, until the context ends. It watches the metadata of pods and events. Resources that the
// caller may not watch are left out.
func (c *Cluster) Follow(ctx context.Context, namespace string, changed func()) error {
	ctx = klog.NewContext(ctx, klog.Logger{})
	var running sync.WaitGroup
	defer running.Wait()
	for _, resource := range followed {
		informer, err := metacache.NewInformer(nil, c.Metadata, resource, namespace, nil, metacache.Identity)
		if err != nil {
			return err
		}
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, UpdateFunc: func(_, _ any) { changed() }, DeleteFunc: func(any) { changed() },
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	<-ctx.Done()
	return nil
}
