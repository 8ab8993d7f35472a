// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// source is an API server with one ConfigMap, which counts its lists.
func source(lists *atomic.Int32) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			lists.Add(1)
			return &corev1.ConfigMapList{Items: []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}
}

func TestOnDemandStartsWhenNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		demand := NewOnDemand(cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source(&lists), unlisted{}), &corev1.ConfigMap{}, 0, cache.Indexers{}))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			demand.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		if got := lists.Load(); got != 0 {
			t.Errorf("%d lists before it is needed", got)
		}
		for range 2 {
			if err := demand.Need(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok, err := demand.Informer().GetIndexer().GetByKey("ns/a"); !ok || err != nil {
			t.Errorf("what there is is not there: %v", err)
		}
		if got := lists.Load(); got != 1 {
			t.Errorf("%d lists", got)
		}
		stop()
		<-ended
	})
}

func TestOnDemandThatIsNotFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		demand := NewOnDemand(cache.NewSharedIndexInformer(source(&lists), &corev1.ConfigMap{}, 0, cache.Indexers{}))
		// It does not run.
		if err := demand.Need(t.Context()); !errors.Is(err, ErrNotSynced) {
			t.Errorf("error is %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		other := NewOnDemand(demand.Informer())
		other.Run(ctx)
		if got := lists.Load(); got != 0 {
			t.Errorf("%d lists", got)
		}
	})
}

// unlisted is a client that cannot begin a watch with a list.
type unlisted struct{}

// IsWatchListSemanticsUnSupported tells client-go so.
func (unlisted) IsWatchListSemanticsUnSupported() bool { return true }
