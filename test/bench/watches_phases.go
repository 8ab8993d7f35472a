// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// phase measures a phase of the operator until all custom resources are in the state; a nil state waits until none is
// left.
func (b *watchesBench) phase(ctx context.Context, cost *phaseCost, load func() error, state func(*unstructured.Unstructured) bool) (err error) {
	cost.took, cost.cpu, cost.requests, err = b.cost(ctx, func() error {
		if err := load(); err != nil {
			return err
		}
		if state == nil {
			return b.states.await(ctx, 0, nil)
		}
		return b.states.await(ctx, b.size, state)
	})
	return err
}

// observeIdle measures the operator at rest, and its memory.
func (b *watchesBench) observeIdle(ctx context.Context, f *watchesFigures) (err error) {
	lists, err := b.process.sum(ctx, "rest_client_requests_total")
	if err != nil {
		return err
	}
	if err := b.phase(ctx, &f.idle, func() error { return wait(ctx, b.options.idle) }, isDeployed); err != nil {
		return err
	}
	after, err := b.process.sum(ctx, "rest_client_requests_total")
	if err != nil {
		return err
	}
	log.Printf("at rest: %.0f requests with lists and new watches", after-lists)
	f.rss, err = b.process.rss()
	return err
}

// measureMemory measures live objects with growing numbers of others' objects, then restarts the operator, without and
// with the CRD of DemoApps.
func (b *watchesBench) measureMemory(ctx context.Context, binary string, f *watchesFigures) (err error) {
	if err := b.quiet(ctx); err != nil {
		return err
	}
	if f.heap, err = b.process.heap(ctx); err != nil {
		return err
	}
	if err := b.createOthers(ctx, "plain", nil); err != nil {
		return err
	}
	if f.heapOthers, err = b.settledHeap(ctx); err != nil {
		return err
	}
	helm := map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	if err := b.createOthers(ctx, "helm", helm); err != nil {
		return err
	}
	if f.heapHelm, err = b.settledHeap(ctx); err != nil {
		return err
	}
	if f.restart, err = b.restartOnce(ctx, binary, b.size); err != nil {
		return err
	}
	if f.heapRestarted, err = b.settledHeap(ctx); err != nil {
		return err
	}
	if err := b.cluster.InstallCRDs(ctx, filepath.Join(b.options.root, "artifacts", "crds")); err != nil {
		return err
	}
	if _, err = b.restartOnce(ctx, binary, b.size); err != nil {
		return err
	}
	f.heapDemoApp, err = b.settledHeap(ctx)
	return err
}

// createOthers creates Secrets and ConfigMaps that belong to no release of the operator.
func (b *watchesBench) createOthers(ctx context.Context, prefix string, labels map[string]string) error {
	namespace := func(i int) string { return fmt.Sprintf("%s-%d", prefix, i%othersNamespaces) }
	for i := range othersNamespaces {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}
		if _, err := b.kube.CoreV1().Namespaces().Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	text := strings.Repeat("x", othersBytes)
	return b.bench.each(ctx, b.options.others, func(ctx context.Context, i int) error {
		about := metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("other-%05d", i), Labels: labels}
		secret := &corev1.Secret{ObjectMeta: about, StringData: map[string]string{"key": text}}
		if _, err := b.kube.CoreV1().Secrets(about.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
		config := &corev1.ConfigMap{ObjectMeta: about, Data: map[string]string{"key": text}}
		_, err := b.kube.CoreV1().ConfigMaps(about.Namespace).Create(ctx, config, metav1.CreateOptions{})
		return err
	})
}

// custom returns the custom resource of a number.
func (b *watchesBench) custom(i int, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": watchesGroup + "/v1", "kind": b.kind(i), "metadata": map[string]any{"name": name},
		"spec": map[string]any{"message": "first"},
	}}
}

// createAll creates all custom resources, the kinds in turn, and calls then for each.
func (b *watchesBench) createAll(ctx context.Context, namespace string, then func(name string)) error {
	return b.bench.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := b.dynamic.Resource(b.resource(i)).Namespace(namespace).Create(ctx, b.custom(i, appName(i)), metav1.CreateOptions{})
		if err == nil && then != nil {
			then(appName(i))
		}
		return err
	})
}

// changeAll changes one object of each release.
func (b *watchesBench) changeAll(ctx context.Context, namespace string, then func(name string)) error {
	return b.bench.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := b.dynamic.Resource(b.resource(i)).Namespace(namespace).Patch(ctx, appName(i), types.MergePatchType,
			[]byte(`{"spec":{"message":"second"}}`), metav1.PatchOptions{})
		if err == nil && then != nil {
			then(appName(i))
		}
		return err
	})
}

func (b *watchesBench) deleteAllOf(ctx context.Context) error {
	return b.bench.each(ctx, b.size, func(ctx context.Context, i int) error {
		return b.dynamic.Resource(b.resource(i)).Namespace(benchNamespace).Delete(ctx, appName(i), metav1.DeleteOptions{})
	})
}
