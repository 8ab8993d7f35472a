// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// figures are what one round of a contender measures. The floor has install, upgrade and installCPU.
type figures struct {
	install, upgrade, delete, restart time.Duration
	// Requests of all apps, without lists and watches.
	installRequests, upgradeRequests, deleteRequests, restartRequests float64
	installCPU, upgradeCPU, restartCPU                                time.Duration
	// loadCPU is the processor time of generating the load of the install. The floor's installCPU includes it.
	loadCPU time.Duration
	// drift and driftUnderLoad are sorted.
	drift, driftUnderLoad []time.Duration
	// idleFor is zero in all rounds but the last one.
	idleFor, idleCPU    time.Duration
	idleRequests        float64
	peakRSS, restartRSS int64
}

// measureOperator returns the figures of one round of an operator.
func (b *bench) measureOperator(ctx context.Context, binary string) (figures, error) {
	var f figures
	phases := []struct {
		name string
		run  func(context.Context, *figures) error
		// skip says that the current round does not have the phase.
		skip bool
	}{
		{name: "install", run: b.install},
		{name: "settle", run: func(ctx context.Context, _ *figures) error { return b.settle(ctx) }},
		{name: "idle", run: b.idle, skip: !b.last},
		{name: "upgrade", run: b.upgrade},
		{name: "drift", run: b.drift, skip: b.warmUp},
		{name: "drift while installing", run: b.driftUnderLoad, skip: b.warmUp},
		{
			name: "restart",
			run:  func(ctx context.Context, f *figures) error { return b.restart(ctx, binary, f) },
			skip: b.warmUp,
		},
		{name: "delete", run: b.delete},
	}
	if err := b.startOperator(ctx, binary); err != nil {
		return figures{}, err
	}
	for _, phase := range phases {
		if phase.skip {
			continue
		}
		if err := phase.run(ctx, &f); err != nil {
			return figures{}, fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return f, b.stopOperator()
}

func (b *bench) startOperator(ctx context.Context, binary string) error {
	process, err := startOperator(ctx, binary, b.args...)
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

// requests counts the operator's requests, without lists and watches: these are its only GET requests.
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

// cost runs a phase and returns its duration, its processor time and its requests.
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

func (b *bench) install(ctx context.Context, f *figures) (err error) {
	before, err := ownCPU()
	if err != nil {
		return err
	}
	f.install, f.installCPU, f.installRequests, err = b.cost(ctx, func() error {
		if err := b.create(ctx, benchNamespace, b.size, nil); err != nil {
			return err
		}
		after, err := ownCPU()
		if err != nil {
			return err
		}
		f.loadCPU = after - before
		return b.apps.await(ctx, benchNamespace, b.size, deployed)
	})
	return err
}

// settle waits until all apps are ready and the operator sends nothing more.
func (b *bench) settle(ctx context.Context) error {
	if err := b.apps.await(ctx, benchNamespace, b.size, ready); err != nil {
		return err
	}
	return b.quiet(ctx)
}

// idle observes the operator when nothing happens.
func (b *bench) idle(ctx context.Context, f *figures) (err error) {
	f.idleFor, f.idleCPU, f.idleRequests, err = b.cost(ctx, func() error {
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

func (b *bench) upgrade(ctx context.Context, f *figures) (err error) {
	f.upgrade, f.upgradeCPU, f.upgradeRequests, err = b.cost(ctx, func() error {
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
	f.peakRSS, err = b.process.peakRSS()
	return err
}

// restart measures the time from the start of a new process until it has reconciled every app once.
func (b *bench) restart(ctx context.Context, binary string, f *figures) error {
	if err := b.quiet(ctx); err != nil {
		return err
	}
	if err := b.stopOperator(); err != nil {
		return err
	}
	started := time.Now()
	if err := b.startOperator(ctx, binary); err != nil {
		return err
	}
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		reconciles, err := b.process.sum(ctx, "controller_reconcile_total")
		if err != nil {
			return false, err
		}
		waiting, err := b.process.sum(ctx, "workqueue_depth")
		return err == nil && int(reconciles) >= b.size+loadSize && waiting == 0, err
	})
	if err != nil {
		return err
	}
	f.restart = time.Since(started)
	if f.restartRequests, err = b.requests(ctx); err != nil {
		return err
	}
	if f.restartCPU, err = b.process.cpu(); err != nil {
		return err
	}
	f.restartRSS, err = b.process.peakRSS()
	return err
}

func (b *bench) delete(ctx context.Context, f *figures) (err error) {
	f.delete, _, f.deleteRequests, err = b.cost(ctx, func() error { return b.deleteAll(ctx, benchNamespace, b.size) })
	if err != nil || b.warmUp {
		return err
	}
	return b.deleteAll(ctx, loadNamespace, loadSize)
}

// deleteAll deletes the apps of a namespace and waits until they are gone.
func (b *bench) deleteAll(ctx context.Context, namespace string, count int) error {
	err := b.each(ctx, count, func(ctx context.Context, i int) error {
		return b.demo.DemoV1alpha1().DemoApps(namespace).Delete(ctx, appName(i), metav1.DeleteOptions{})
	})
	if err != nil {
		return err
	}
	return b.apps.await(ctx, namespace, 0, exists)
}
