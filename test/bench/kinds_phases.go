// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
)

// createAll creates the custom resources. It calls created and then for each; created may be nil.
func (b *kindsBench) createAll(
	ctx context.Context, namespace string, created func(name string, uid types.UID), then func(name string),
) error {
	resources := b.cluster.Dynamic.Resource(b.subject.resource).Namespace(namespace)
	return b.each(ctx, b.size, func(ctx context.Context, i int) error {
		custom, err := b.subject.named(appName(i))
		if err != nil {
			return err
		}
		live, err := resources.Create(ctx, custom, metav1.CreateOptions{})
		if err == nil && created != nil {
			created(appName(i), live.GetUID())
			then(appName(i))
		}
		return err
	})
}

// install creates all custom resources. It measures the times until their children are applied, until their pods are
// ready, and until they are ready.
func (b *kindsBench) install(ctx context.Context, r *kindReport) (err error) {
	b.size = b.count
	before, err := cpuByName()
	if err != nil {
		return err
	}
	r.install, err = b.observe(ctx, func() error {
		began := time.Now()
		pods := b.awaitPods(ctx, benchNamespace, began)
		if err := b.createAll(ctx, benchNamespace, nil, nil); err != nil {
			return err
		}
		if err := b.states.await(ctx, b.count, b.isApplied); err != nil {
			return fmt.Errorf("children applied: %w", err)
		}
		r.operator.applied = time.Since(began)
		if err := b.states.await(ctx, b.count, b.isReady); err != nil {
			return fmt.Errorf("ready: %w", err)
		}
		r.operator.ready = time.Since(began)
		if r.operator.pods, err = pods(); err != nil {
			return err
		}
		after, err := cpuByName()
		r.operator.cpu = growth(before, after)
		return err
	})
	if err != nil {
		return err
	}
	r.peakRSS, err = b.process.peakRSS()
	return err
}

// rest observes the operator when nothing happens, and its memory.
func (b *kindsBench) rest(ctx context.Context, r *kindReport) (err error) {
	if r.rest, err = b.observe(ctx, func() error { return wait(ctx, b.options.idle) }); err != nil {
		return err
	}
	if r.rss, err = b.process.rss(); err != nil {
		return err
	}
	r.heap, err = b.process.heap(ctx)
	return err
}

// driftAll changes a child of each of a number of custom resources, one after another.
func (b *kindsBench) driftAll(ctx context.Context, r *kindReport) error {
	field, kind, err := driftOf(b.sample)
	if err != nil {
		return err
	}
	r.driftedKind, r.driftedField = kind, strings.Join(field.path, ".")
	r.driftCost, err = b.observe(ctx, func() error {
		r.drifts, err = b.drifts(ctx, field, min(b.options.driftCount, b.count))
		return err
	})
	return err
}

// restartAll restarts the operator, which finds all children as they should be.
func (b *kindsBench) restartAll(ctx context.Context, binary string, r *kindReport) error {
	began := time.Now()
	cost, err := b.restartOnce(ctx, binary, b.count*b.sample.owners)
	if err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	requests, err := b.cluster.AuditRequests(began, byOperator)
	if err != nil {
		return err
	}
	r.restart = kindCost{took: cost.took, over: cost.took, cpu: cost.cpu, sent: countSent(requests)}
	if r.restartRSS, err = b.process.rss(); err != nil {
		return err
	}
	r.restartHeap, err = b.process.heap(ctx)
	return err
}

// deleteAll deletes the custom resources and waits until they are gone, with their children that are custom resources.
func (b *kindsBench) deleteAll(ctx context.Context, r *kindReport) (err error) {
	r.delete, err = b.observe(ctx, func() error {
		resources := b.cluster.Dynamic.Resource(b.subject.resource).Namespace(benchNamespace)
		if err := b.each(ctx, b.count, func(ctx context.Context, i int) error {
			return resources.Delete(ctx, appName(i), metav1.DeleteOptions{})
		}); err != nil {
			return err
		}
		return b.states.await(ctx, 0, nil)
	})
	return err
}

// isApplied reports whether all children are applied, as the status says.
func (b *kindsBench) isApplied(object *unstructured.Unstructured) bool {
	return object.GetKind() == b.subject.kind && appliedChildren(object) >= b.sample.children
}

// isReady reports whether the condition Ready is about the current spec and True.
func (b *kindsBench) isReady(object *unstructured.Unstructured) bool {
	if object.GetKind() != b.subject.kind {
		return false
	}
	field, _, _ := unstructured.NestedFieldCopy(object.Object, "status", "conditions")
	text, err := json.Marshal(field)
	var conditions []metav1.Condition
	if err != nil || json.Unmarshal(text, &conditions) != nil {
		return false
	}
	ready := meta.FindStatusCondition(conditions, apimeta.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.GetGeneration()
}

// appliedChildren returns the number of children that the status has.
func appliedChildren(object *unstructured.Unstructured) int {
	applied, _, _ := unstructured.NestedSlice(object.Object, "status", "children", "applied")
	return len(applied)
}
