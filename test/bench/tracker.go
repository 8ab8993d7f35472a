// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// tracker knows the observed state of all apps.
type tracker struct {
	mu   sync.Mutex
	apps map[cache.ObjectName]*v1alpha1.DemoApp
}

// countInterval is the time between two counts of the apps, and so the error of measured times.
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
		// Counting at each of thousands of changes would take longer than the changes.
		select {
		case <-time.After(countInterval):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d apps have reached the state, want %d", got, count), ctx.Err())
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

// exists is a state for all apps.
func exists(*v1alpha1.DemoApp) bool { return true }

// deployed reports whether the current spec is deployed.
func deployed(app *v1alpha1.DemoApp) bool {
	return app.Status.ObservedGeneration == app.Generation && meta.IsStatusConditionTrue(app.Status.Conditions, releasev1alpha1.ConditionDeployed)
}

// ready reports whether the current spec is deployed and healthy.
func ready(app *v1alpha1.DemoApp) bool {
	return deployed(app) && meta.IsStatusConditionTrue(app.Status.Conditions, apimeta.ConditionReady)
}
