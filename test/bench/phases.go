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

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// result are the figures of one size.
type result struct {
	size                             int
	floorInstall, floorUpgrade       time.Duration
	install, upgrade, delete         time.Duration
	installRequests, upgradeRequests float64
	deleteRequests                   float64
	installCPU, upgradeCPU           time.Duration
	// floorCPU is that of the floor's install and of generating the load, and
	// loadCPU that of generating the load alone.
	floorCPU, loadCPU     time.Duration
	idleCPU               time.Duration
	idleFor               time.Duration
	idleRequests          float64
	drift, driftUnderLoad []time.Duration
	peakRSS               int64
	restart               time.Duration
	restartRequests       float64
	restartCPU            time.Duration
	restartRSS            int64
}

func (b *bench) startOperator(ctx context.Context) error {
	process, err := startOperator(ctx, b.binary, b.args...)
	if err != nil {
		return err
	}
	b.process = process
	return nil
}

func (b *bench) stopOperator() error {
	process := b.process
	b.process = nil
	return process.stop()
}

// requests counts what the operator has sent: all but lists and watches, which
// are the GET requests of an operator that reads nothing else.
func (b *bench) requests(ctx context.Context) (float64, error) {
	total := 0.0
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		count, err := b.process.sum(ctx, "rest_client_requests_total", `method="`+method+`"`)
		if err != nil {
			return 0, err
		}
		total += count
	}
	return total, nil
}

// cost runs a phase and tells what it cost.
func (b *bench) cost(ctx context.Context, phase func() error) (took, cpu time.Duration, requests float64, err error) {
	cpuBefore, err := b.process.cpu()
	if err != nil {
		return 0, 0, 0, err
	}
	before, err := b.requests(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	started := time.Now()
	if err := phase(); err != nil {
		return 0, 0, 0, err
	}
	took = time.Since(started)
	cpuAfter, err := b.process.cpu()
	if err != nil {
		return 0, 0, 0, err
	}
	after, err := b.requests(ctx)
	return took, cpuAfter - cpuBefore, after - before, err
}

func (b *bench) install(ctx context.Context) (err error) {
	if err := b.startOperator(ctx); err != nil {
		return err
	}
	before, err := ownCPU()
	if err != nil {
		return err
	}
	b.result.install, b.result.installCPU, b.result.installRequests, err = b.cost(ctx, func() error {
		if err := b.create(ctx, benchNamespace, b.size, nil); err != nil {
			return err
		}
		return b.apps.await(ctx, benchNamespace, b.size, deployed)
	})
	if err != nil {
		return err
	}
	after, err := ownCPU()
	b.result.loadCPU = after - before
	return err
}

func (b *bench) idle(ctx context.Context) (err error) {
	if err := b.apps.await(ctx, benchNamespace, b.size, ready); err != nil {
		return err
	}
	if err := b.quiet(ctx); err != nil {
		return err
	}
	b.result.idleFor, b.result.idleCPU, b.result.idleRequests, err = b.cost(ctx, func() error {
		select {
		case <-time.After(b.options.idle):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return err
}

// quiet returns when the operator has sent nothing for two seconds.
func (b *bench) quiet(ctx context.Context) error {
	last := -1.0
	return poll(ctx, 2*time.Second, func() (bool, error) {
		now, err := b.requests(ctx)
		if err != nil {
			return false, err
		}
		same := now == last
		last = now
		return same, nil
	})
}

func (b *bench) upgrade(ctx context.Context) (err error) {
	b.result.upgrade, b.result.upgradeCPU, b.result.upgradeRequests, err = b.cost(ctx, func() error {
		if err := b.change(ctx, benchNamespace, "second", nil); err != nil {
			return err
		}
		return b.apps.await(ctx, benchNamespace, b.size, func(app *v1alpha1.DemoApp) bool {
			return app.Spec.Message == "second" && deployed(app)
		})
	})
	if err != nil {
		return err
	}
	b.result.peakRSS, err = b.process.peakRSS()
	return err
}

func (b *bench) drift(ctx context.Context) (err error) {
	b.result.drift, err = b.drifts(ctx, b.options.driftCount)
	return err
}

// driftUnderLoad measures the same while installs run.
func (b *bench) driftUnderLoad(ctx context.Context) error {
	var load sync.WaitGroup
	var loadErr error
	load.Go(func() { loadErr = b.create(ctx, loadNamespace, loadSize, nil) })
	var err error
	b.result.driftUnderLoad, err = b.drifts(ctx, b.options.driftCount/2)
	load.Wait()
	if err != nil {
		return err
	}
	if loadErr != nil {
		return loadErr
	}
	return b.apps.await(ctx, loadNamespace, loadSize, ready)
}

// drifts changes ConfigMaps one after another and measures the time from the API
// server's answer until a watch shows the correction. Scaling Deployments would
// measure the cluster, which makes and removes pods for each.
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

// driftText is what a key of the ConfigMap is set to behind the operator's back.
const (
	driftKey  = "index.html"
	driftText = "drifted"
)

// restart measures the time from the start of a new process until it has looked
// at every app.
func (b *bench) restart(ctx context.Context) error {
	if err := b.quiet(ctx); err != nil {
		return err
	}
	if err := b.stopOperator(); err != nil {
		return err
	}
	started := time.Now()
	if err := b.startOperator(ctx); err != nil {
		return err
	}
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		looks, err := b.process.sum(ctx, "controller_reconcile_total")
		if err != nil {
			return false, err
		}
		waiting, err := b.process.sum(ctx, "workqueue_depth")
		return err == nil && int(looks) >= b.size+loadSize && waiting == 0, err
	})
	if err != nil {
		return err
	}
	b.result.restart = time.Since(started)
	if b.result.restartRequests, err = b.requests(ctx); err != nil {
		return err
	}
	if b.result.restartCPU, err = b.process.cpu(); err != nil {
		return err
	}
	b.result.restartRSS, err = b.process.peakRSS()
	return err
}

func (b *bench) delete(ctx context.Context) (err error) {
	b.result.delete, _, b.result.deleteRequests, err = b.cost(ctx, func() error {
		err := b.each(ctx, b.size, func(ctx context.Context, i int) error {
			return b.demo.DemoV1alpha1().DemoApps(benchNamespace).Delete(ctx, appName(i), metav1.DeleteOptions{})
		})
		if err != nil {
			return err
		}
		return b.apps.await(ctx, benchNamespace, 0, func(*v1alpha1.DemoApp) bool { return true })
	})
	return err
}
