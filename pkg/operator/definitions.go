// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/served"
)

// definitions watches the CRDs of resources that the API server does not serve. Each CRD has a
// separate watch, so that the operator receives no other CRDs. Only one goroutine may use
// definitions.
type definitions struct {
	client  dynamic.Interface
	watches map[schema.GroupVersionResource]*definition
	// allowed means that the operator may watch CRDs. While this is unknown, or the watch is
	// refused, there is at most one watch.
	allowed bool
	// refused logs the first refusal.
	refused sync.Once
	// established receives a value after a change of a watched CRD whose resource is served, or
	// will soon be served.
	established chan struct{}
}

// definition is the watch of one CRD. ctx ends when the watch is stopped or refused, and done is
// closed afterwards.
type definition struct {
	informer cache.SharedIndexInformer
	ctx      context.Context //nolint:containedctx // It is the lifetime of the watch.
	stop     context.CancelFunc
	done     chan struct{}
}

func newDefinitions(client dynamic.Interface) *definitions {
	return &definitions{
		client: client, watches: map[schema.GroupVersionResource]*definition{}, established: make(chan struct{}, 1),
	}
}

// follow watches the CRDs of only these resources until ctx ends. While watches are refused, each
// call retries one watch.
func (d *definitions) follow(ctx context.Context, resources []schema.GroupVersionResource) {
	for resource, watch := range d.watches {
		if watch.ctx.Err() == nil && slices.Contains(resources, resource) {
			continue
		}
		d.allowed = d.allowed && watch.ctx.Err() == nil
		watch.stop()
		<-watch.done
		delete(d.watches, resource)
	}
	for _, resource := range resources {
		if _, ok := d.watches[resource]; ok {
			continue
		}
		watch := d.watch(ctx, resource)
		d.watches[resource] = watch
		if !d.allowed && !watch.begins(ctx) {
			return
		}
		d.allowed = true
	}
}

// begins waits for the first list of the watch. It returns false if the list is refused or the API
// server does not answer.
func (d *definition) begins(ctx context.Context) bool {
	answered, cancel := context.WithTimeout(ctx, preflightRequestTimeout)
	defer cancel()
	stop := context.AfterFunc(d.ctx, cancel) //nolint:contextcheck // It is the end of the watch.
	defer stop()
	return cache.WaitForCacheSync(answered.Done(), d.informer.HasSynced)
}

// awaits reports whether an event will announce that the resource is served. It returns false if
// the CRD cannot be watched, or if the CRD is already established.
func (d *definitions) awaits(resource schema.GroupVersionResource) bool {
	watch, ok := d.watches[resource]
	if !ok || watch.ctx.Err() != nil || !watch.informer.HasSynced() {
		return false
	}
	crd, exists, err := watch.informer.GetStore().GetByKey(definitionName(resource))
	return err == nil && (!exists || !establishes(crd, resource))
}

func (d *definitions) watch(ctx context.Context, resource schema.GroupVersionResource) *definition {
	ctx, stop := context.WithCancel(ctx)
	informer, err := served.NewDefinitionInformer(d.client, definitionName(resource))
	watch := &definition{informer: informer, ctx: ctx, stop: stop, done: make(chan struct{})}
	changed := func(crd any) {
		if !establishes(crd, resource) {
			return
		}
		select {
		case d.established <- struct{}{}:
		default:
		}
	}
	_, failed := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, crd any) { changed(crd) },
	})
	err = errors.Join(err, failed, informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		d.refuse(ctx)
		stop()
	}))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot watch a CRD", "crd", definitionName(resource))
		stop()
	}
	go func() {
		defer close(watch.done)
		informer.RunWithContext(ctx)
	}()
	return watch
}

// refuse records that CRDs cannot be watched.
func (d *definitions) refuse(ctx context.Context) {
	d.refused.Do(func() {
		klog.FromContext(ctx).Info("CRDs cannot be watched; kinds that are not installed are looked for at intervals of up to 5 minutes")
	})
}

// definitionName returns the name of the CRD that defines a resource.
func definitionName(resource schema.GroupVersionResource) string {
	return resource.GroupResource().String()
}

// establishes reports whether the API server serves a resource because of its CRD.
func establishes(object any, resource schema.GroupVersionResource) bool {
	crd, ok := object.(*served.Definition)
	return ok && crd.Serves(resource.Version)
}
