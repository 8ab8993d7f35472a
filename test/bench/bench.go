// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/pkg/generated/informers/externalversions"
	"github.com/example/demoapp-controller/test/cluster"
)

const (
	operatorNamespace = "demoapp-system"
	benchNamespace    = "bench"
	floorNamespace    = "floor"
	loadNamespace     = "bench-load"

	// loadSize is how many installs run while drift is measured under load.
	loadSize = 200
	// phaseTimeout bounds each wait for all apps of a phase.
	phaseTimeout = 20 * time.Minute
)

// bench measures one size.
type bench struct {
	options options
	size    int
	binary  string
	cluster *cluster.Cluster
	config  *rest.Config
	kube    kubernetes.Interface
	demo    versioned.Interface
	args    []string
	dir     string

	process *process
	apps    *tracker
	stop    context.CancelFunc
	shape   shape
	result  result
}

func newBench(ctx context.Context, c *cluster.Cluster, o options, binary string, size int) (*bench, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, size: size, binary: binary, cluster: c, config: c.AdminConfig(), kube: c.Client, dir: dir}
	b.result.size = size
	b.config.QPS = -1
	if b.demo, err = versioned.NewForConfig(b.config); err != nil {
		return nil, err
	}
	artifacts := filepath.Join(o.root, "artifacts")
	if err := c.InstallCRDs(ctx, filepath.Join(artifacts, "crds")); err != nil {
		return nil, err
	}
	for _, file := range []string{"00-namespace.yaml", "10-rbac.yaml"} {
		if err := c.ApplyFiles(ctx, "", filepath.Join(artifacts, "deploy", file)); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{benchNamespace, floorNamespace, loadNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := b.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := c.WriteServiceAccountKubeconfig(ctx, operatorNamespace, "demoapp-controller", kubeconfig); err != nil {
		return nil, err
	}
	b.args = []string{
		"--kubeconfig=" + kubeconfig,
		fmt.Sprintf("--workers=%d", o.workers),
		"--namespaces=" + benchNamespace + "," + loadNamespace,
		// No periodic pass falls into a phase: only what a phase causes is measured.
		"--resync-period=24h",
	}
	b.apps = newTracker()
	var watching context.Context
	watching, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	factory := externalversions.NewSharedInformerFactory(b.demo, 0)
	informer := factory.Demo().V1alpha1().DemoApps().Informer()
	if _, err := informer.AddEventHandler(b.apps.handler()); err != nil {
		return nil, err
	}
	factory.StartWithContext(watching)
	return b, factory.WaitForCacheSyncWithContext(ctx).AsError()
}

func (b *bench) close() {
	b.stop()
	if b.process != nil {
		_ = b.process.stop()
	}
	_ = os.RemoveAll(b.dir)
}

func (b *bench) operatorLog() string {
	if b.process == nil {
		return ""
	}
	const tail = 4000
	text := b.process.log.String()
	return text[max(0, len(text)-tail):]
}

func appName(i int) string { return fmt.Sprintf("app-%05d", i) }

func newApp(namespace, name string) *v1alpha1.DemoApp {
	replicas := int32(0)
	return &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DemoAppSpec{ReplicaCount: &replicas, APIKey: "verysecret", Message: "first"},
	}
}

// create makes apps with the load generator's own workers, and hands each name
// on as soon as it exists.
func (b *bench) create(ctx context.Context, namespace string, count int, then func(name string)) error {
	return b.each(ctx, count, func(ctx context.Context, i int) error {
		_, err := b.demo.DemoV1alpha1().DemoApps(namespace).Create(ctx, newApp(namespace, appName(i)), metav1.CreateOptions{})
		if err == nil && then != nil {
			then(appName(i))
		}
		return err
	})
}

// change patches the message of every app.
func (b *bench) change(ctx context.Context, namespace, message string, then func(name string)) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"message": message}})
	if err != nil {
		return err
	}
	return b.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := b.demo.DemoV1alpha1().DemoApps(namespace).Patch(ctx, appName(i), types.MergePatchType, patch, metav1.PatchOptions{})
		if err == nil && then != nil {
			then(appName(i))
		}
		return err
	})
}

// each runs work for 0 to count-1 with as many workers as the operator has.
func (b *bench) each(ctx context.Context, count int, work func(ctx context.Context, i int) error) error {
	next := make(chan int)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for range b.options.workers {
		workers.Go(func() {
			for i := range next {
				if err := work(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for i := range count {
		select {
		case next <- i:
		case <-ctx.Done():
			close(next)
			workers.Wait()
			return context.Cause(ctx)
		}
	}
	close(next)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return nil
}

// tracker follows the state of all apps.
type tracker struct {
	mu   sync.Mutex
	apps map[cache.ObjectName]*v1alpha1.DemoApp
}

// countInterval is the time between two counts of the apps, and with it the error of
// the times that are measured.
const countInterval = 20 * time.Millisecond

func newTracker() *tracker { return &tracker{apps: map[cache.ObjectName]*v1alpha1.DemoApp{}} }

func (t *tracker) handler() cache.ResourceEventHandler {
	set := func(object any) {
		if app, ok := object.(*v1alpha1.DemoApp); ok {
			t.mu.Lock()
			t.apps[cache.MetaObjectToName(app)] = app
			t.mu.Unlock()
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, after any) { set(after) },
		DeleteFunc: func(object any) {
			name, err := cache.DeletionHandlingObjectToName(object)
			if err != nil {
				return
			}
			t.mu.Lock()
			delete(t.apps, name)
			t.mu.Unlock()
		},
	}
}

// await returns when count apps of the namespace are in the state.
func (t *tracker) await(ctx context.Context, namespace string, count int, state func(*v1alpha1.DemoApp) bool) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	for {
		got := t.count(namespace, state)
		if got == count {
			return nil
		}
		// To count at each of thousands of changes would take more time than to make
		// them.
		select {
		case <-time.After(countInterval):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d of %d apps are where they should be", got, count), ctx.Err())
		}
	}
}

func (t *tracker) count(namespace string, state func(*v1alpha1.DemoApp) bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := 0
	for name, app := range t.apps {
		if name.Namespace == namespace && state(app) {
			count++
		}
	}
	return count
}

// deployed reports whether the operator is through with what the spec says now.
func deployed(app *v1alpha1.DemoApp) bool {
	return app.Status.ObservedGeneration == app.Generation && meta.IsStatusConditionTrue(app.Status.Conditions, releasev1alpha1.ConditionDeployed)
}

// ready reports whether the app is deployed and healthy, too.
func ready(app *v1alpha1.DemoApp) bool {
	return deployed(app) && meta.IsStatusConditionTrue(app.Status.Conditions, apimeta.ConditionReady)
}
