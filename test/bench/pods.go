// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// podCounter knows which pods are ready.
type podCounter struct {
	mu    sync.Mutex
	ready map[types.UID]string
}

// watchPods counts pods until the end of ctx. It watches as cheaply as the components of the control plane do.
func watchPods(ctx context.Context, admin *rest.Config) (*podCounter, error) {
	config := rest.CopyConfig(admin)
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &podCounter{ready: map[types.UID]string{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.set,
		UpdateFunc: func(_, after any) { c.set(after) },
		DeleteFunc: c.drop,
	}); err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	return c, factory.WaitForCacheSyncWithContext(ctx).AsError()
}

func (c *podCounter) set(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || !isPodReady(pod) {
		c.drop(object)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready[pod.UID] = pod.Namespace
}

func (c *podCounter) drop(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if pod, ok := object.(metav1.Object); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ready, pod.GetUID())
	}
}

// count returns the number of ready pods of a namespace.
func (c *podCounter) count(namespace string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, in := range c.ready {
		if in == namespace {
			count++
		}
	}
	return count
}

func isPodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// awaitPods counts the pods of a namespace from now on. The function that it returns waits until as many are ready as all
// custom resources have, and returns the time since began at which they were.
func (b *kindsBench) awaitPods(ctx context.Context, namespace string, began time.Time) func() (time.Duration, error) {
	type answer struct {
		took time.Duration
		err  error
	}
	answers := make(chan answer, 1)
	want := b.size * b.sample.pods
	go func() {
		ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
		defer cancel()
		err := poll(ctx, countInterval, func() (bool, error) { return b.pods.count(namespace) >= want, nil })
		answers <- answer{time.Since(began), err}
	}()
	return func() (time.Duration, error) {
		got := <-answers
		return got.took, got.err
	}
}
