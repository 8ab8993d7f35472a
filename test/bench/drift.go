// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

func (b *bench) drift(ctx context.Context, f *figures) (err error) {
	f.drift, err = b.drifts(ctx, configMapDrift, b.options.driftCount)
	return err
}

// driftUnderLoad measures drift while installs run.
func (b *bench) driftUnderLoad(ctx context.Context, f *figures) error {
	var load sync.WaitGroup
	var loadErr error
	load.Go(func() { loadErr = b.create(ctx, loadNamespace, loadSize, nil) })
	var err error
	f.driftUnderLoad, err = b.drifts(ctx, configMapDrift, b.options.driftCount/2)
	load.Wait()
	if err != nil {
		return err
	}
	if loadErr != nil {
		return loadErr
	}
	return b.apps.await(ctx, loadNamespace, loadSize, ready)
}

// drifts changes a field of objects one after another. It measures the time from the API server's answer until a watch
// shows the correction.
func (b *bench) drifts(ctx context.Context, of driftedField, count int) ([]time.Duration, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	resources := b.cluster.Dynamic.Resource(of.resource).Namespace(benchNamespace)
	corrected := make(chan string, b.size)
	informer := dynamicinformer.NewFilteredDynamicInformer(b.cluster.Dynamic, of.resource, benchNamespace, 0, nil, nil).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		was, is := before.(*unstructured.Unstructured), after.(*unstructured.Unstructured)
		if of.hasDrifted(was) && !of.hasDrifted(is) {
			corrected <- is.GetName()
		}
	}}); err != nil {
		return nil, err
	}
	go informer.RunWithContext(watching)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, ctx.Err()
	}
	patch, err := of.patch()
	if err != nil {
		return nil, err
	}
	times := make([]time.Duration, 0, count)
	for i := range count {
		name := of.name(appName(i % b.size))
		if _, err := resources.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return nil, err
		}
		changed := time.Now()
		select {
		case got := <-corrected:
			if got != name {
				return nil, fmt.Errorf("%s was corrected, not %s", got, name)
			}
			times = append(times, time.Since(changed))
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("the drift of %s was not corrected within a minute", name)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	slices.Sort(times)
	return times, nil
}

// driftText is the drifted value of a field.
const driftText = "drifted"

// driftedField is a text of a child of each custom resource, which others change.
type driftedField struct {
	resource schema.GroupVersionResource
	path     []string
	// name returns the name of the child.
	name func(owner string) string
}

// configMapDrift changes the page of a DemoApp. Deployments are not changed, since the time would include the creation and
// removal of pods.
var configMapDrift = driftedField{
	resource: corev1.SchemeGroupVersion.WithResource("configmaps"),
	path:     []string{"data", "index.html"},
	name:     func(owner string) string { return owner },
}

func (d driftedField) hasDrifted(object *unstructured.Unstructured) bool {
	text, _, err := unstructured.NestedString(object.Object, d.path...)
	return err == nil && text == driftText
}

// patch returns a merge patch that changes the field.
func (d driftedField) patch() ([]byte, error) {
	changed := map[string]any{}
	if err := unstructured.SetNestedField(changed, driftText, d.path...); err != nil {
		return nil, err
	}
	return json.Marshal(changed)
}
