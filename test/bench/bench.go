// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
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
	// size is the number of DemoApps of the current round.
	size int
	// warmUp says that the current round does not count; last, that it is the last one.
	warmUp, last bool

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
}

func newBench(ctx context.Context, c *cluster.Cluster, o options) (*bench, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, cluster: c, config: c.AdminConfig(), kube: c.Client, dir: dir}
	if b.demo, err = versioned.NewForConfig(b.config); err != nil {
		return nil, err
	}
	if err := b.deploy(ctx); err != nil {
		return nil, err
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

// deploy applies what an operator needs, and prepares its arguments.
func (b *bench) deploy(ctx context.Context) error {
	artifacts := filepath.Join(b.options.root, "artifacts")
	if err := b.cluster.InstallCRDs(ctx, filepath.Join(artifacts, "crds")); err != nil {
		return err
	}
	for _, file := range []string{"00-namespace.yaml", "10-rbac.yaml"} {
		if err := b.cluster.ApplyFiles(ctx, "", filepath.Join(artifacts, "deploy", file)); err != nil {
			return err
		}
	}
	if err := b.createNamespaces(ctx); err != nil {
		return err
	}
	kubeconfig := filepath.Join(b.dir, "kubeconfig")
	if err := b.cluster.WriteServiceAccountKubeconfig(ctx, operatorNamespace, "demoapp-controller", kubeconfig); err != nil {
		return err
	}
	b.args = []string{
		"--kubeconfig=" + kubeconfig,
		fmt.Sprintf("--workers=%d", b.options.workers),
		"--namespaces=" + benchNamespace + "," + loadNamespace,
		// A periodic resync within a phase would be counted as a cost of the phase.
		"--resync-period=24h",
	}
	return nil
}

// benchNamespaces are the namespaces of DemoApps.
var benchNamespaces = []string{benchNamespace, floorNamespace, loadNamespace}

func (b *bench) createNamespaces(ctx context.Context) error {
	for _, name := range benchNamespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := b.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// clear removes what a contender made, so that each contender begins on a cluster without DemoApps: the cost of a request
// grows with the number of objects.
func (b *bench) clear(ctx context.Context) error {
	namespaces := b.kube.CoreV1().Namespaces()
	for _, name := range benchNamespaces {
		if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	for _, name := range benchNamespaces {
		err := poll(ctx, time.Second, func() (bool, error) {
			_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		})
		if err != nil {
			return fmt.Errorf("remove namespace %s: %w", name, err)
		}
	}
	return b.createNamespaces(ctx)
}

// measure runs one round of a contender.
func (b *bench) measure(ctx context.Context, c contender) (f figures, err error) {
	if c.binary == "" {
		f, err = b.measureFloor(ctx)
	} else {
		f, err = b.measureOperator(ctx, c.binary)
	}
	if err != nil {
		return figures{}, err
	}
	return f, b.clear(ctx)
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
	return tail(b.process.log)
}

func appName(i int) string { return fmt.Sprintf("app-%05d", i) }

func newApp(namespace, name string) *v1alpha1.DemoApp {
	replicas := int32(0)
	return &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DemoAppSpec{ReplicaCount: &replicas, APIKey: "verysecret", Message: "first"},
	}
}

// create creates apps with the load generator's own workers, and calls then for each app that exists.
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
