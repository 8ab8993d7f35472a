// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// states has the newest version of each custom resource. The zero value is ready to use.
type states struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
}

func (s *states) handler(kind string) cache.ResourceEventHandler {
	set := func(object any, gone bool) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		custom, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		key := kind + "/" + custom.GetNamespace() + "/" + custom.GetName()
		if s.objects == nil {
			s.objects = map[string]*unstructured.Unstructured{}
		}
		if gone {
			delete(s.objects, key)
		} else {
			s.objects[key] = custom
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { set(object, false) },
		UpdateFunc: func(_, after any) { set(after, false) },
		DeleteFunc: func(object any) { set(object, true) },
	}
}

// await returns when count custom resources of benchNamespace are in the state; a nil state counts all.
func (s *states) await(ctx context.Context, count int, state func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	// Each version of an object is examined once, because there are thousands of objects and many polls.
	known := map[*unstructured.Unstructured]bool{}
	reached := func(object *unstructured.Unstructured) bool {
		is, examined := known[object]
		if !examined {
			is = object.GetNamespace() == benchNamespace && (state == nil || state(object))
			known[object] = is
		}
		return is
	}
	got := 0
	err := poll(ctx, countInterval, func() (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		got = 0
		for _, object := range s.objects {
			if reached(object) {
				got++
			}
		}
		return got == count, nil
	})
	if err != nil {
		return fmt.Errorf("%d custom resources have reached the state, want %d: %w", got, count, err)
	}
	return nil
}
