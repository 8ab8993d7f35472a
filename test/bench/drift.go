// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

func (b *bench) drift(ctx context.Context, f *figures) (err error) {
	f.drift, err = b.drifts(ctx, b.options.driftCount)
	return err
}

// driftUnderLoad measures drift while installs run.
func (b *bench) driftUnderLoad(ctx context.Context, f *figures) error {
	var load sync.WaitGroup
	var loadErr error
	load.Go(func() { loadErr = b.create(ctx, loadNamespace, loadSize, nil) })
	var err error
	f.driftUnderLoad, err = b.drifts(ctx, b.options.driftCount/2)
	load.Wait()
	if err != nil {
		return err
	}
	if loadErr != nil {
		return loadErr
	}
	return b.apps.await(ctx, loadNamespace, loadSize, ready)
}

// drifts changes ConfigMaps one after another. It measures the time from the API server's answer until a watch shows the
// correction. Deployments are not changed, since the time would include the creation and removal of pods.
func (b *bench) drifts(ctx context.Context, count int) ([]time.Duration, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	factory := informers.NewSharedInformerFactoryWithOptions(b.kube, 0, informers.WithNamespace(benchNamespace))
	corrected := make(chan string, b.size)
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		was, is := before.(*corev1.ConfigMap), after.(*corev1.ConfigMap)
		if was.Data[driftKey] == driftText && is.Data[driftKey] != driftText {
			corrected <- is.Name
		}
	}}); err != nil {
		return nil, err
	}
	factory.StartWithContext(watching)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return nil, err
	}
	patch := fmt.Appendf(nil, `{"data":{%q:%q}}`, driftKey, driftText)
	times := make([]time.Duration, 0, count)
	for i := range count {
		name := appName(i % b.size)
		if _, err := b.kube.CoreV1().ConfigMaps(benchNamespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
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

// driftText is the drifted value of a key of the ConfigMap.
const (
	driftKey  = "index.html"
	driftText = "drifted"
)
