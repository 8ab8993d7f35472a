// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/test/synctestmain"
)

func TestMain(m *testing.M) { synctestmain.Run(m) }

// source is an API server with one ConfigMap. It counts the lists.
func source(lists *atomic.Int32) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			lists.Add(1)
			return &corev1.ConfigMapList{Items: []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}
}

// wakes counts the calls of Enqueue for each key.
type wakes struct {
	mu    sync.Mutex
	count map[cache.ObjectName]int
}

// Enqueue implements Enqueuer.
func (w *wakes) Enqueue(key cache.ObjectName, why Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count == nil {
		w.count = map[cache.ObjectName]int{}
	}
	if why == DependencyReady {
		w.count[key]++
	}
}

// want checks the number of calls so far.
func (w *wakes) want(t *testing.T, what string, want map[cache.ObjectName]int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(want, w.count) {
		t.Errorf("%s: enqueued %v, want %v", what, w.count, want)
	}
}

// demand returns a running OnDemand for source, and a function that stops it.
func demand(t *testing.T, source *cache.ListWatch) (*OnDemand, func()) {
	t.Helper()
	d, err := NewOnDemand(cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, unlisted{}), &corev1.ConfigMap{}, 0, cache.Indexers{}),
		cache.DefaultWatchErrorHandler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		d.Run(ctx)
		close(ended)
	}()
	return d, func() {
		stop()
		<-ended
	}
}

func TestOnDemandStartsWhenNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		var woken wakes
		d, stop := demand(t, source(&lists))
		defer stop()
		synctest.Wait()
		if got := lists.Load(); got != 0 {
			t.Errorf("%d lists before the first call of Need", got)
		}
		for _, key := range []cache.ObjectName{keyA, keyB, keyA} {
			if err := d.Need(key, &woken); !errors.Is(err, ErrNotSynced) || !IsPending(err) {
				t.Errorf("error before the sync is %v", err)
			}
		}
		advance(time.Second)
		woken.want(t, "after the sync", map[cache.ObjectName]int{keyA: 1, keyB: 1})
		if err := d.Need(keyA, &woken); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := d.Informer().GetIndexer().GetByKey("ns/a"); !ok || err != nil {
			t.Errorf("the cache lacks the object: %v", err)
		}
		advance(time.Hour)
		woken.want(t, "an hour later", map[cache.ObjectName]int{keyA: 1, keyB: 1})
		if got := lists.Load(); got != 1 {
			t.Errorf("%d lists", got)
		}
	})
}

func TestOnDemandListForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		var forbidden atomic.Bool
		var woken wakes
		from := source(&lists)
		list := from.ListWithContextFunc
		from.ListWithContextFunc = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, err := list(ctx, options)
			if forbidden.Load() {
				return nil, apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no rule allows it"))
			}
			return found, err
		}
		forbidden.Store(true)
		d, stop := demand(t, from)
		defer stop()
		if err := d.Need(keyA, &woken); !IsPending(err) {
			t.Errorf("error before the first failure is %v", err)
		}
		advance(time.Second)
		woken.want(t, "after the first failure", map[cache.ObjectName]int{keyA: 1})
		for _, key := range []cache.ObjectName{keyA, keyB} {
			err := d.Need(key, &woken)
			var unfilled *UnfilledError
			if !errors.Is(err, ErrNotSynced) || !errors.As(err, &unfilled) || !apierrors.IsForbidden(unfilled.Failure) || IsPending(err) {
				t.Errorf("error is %v", err)
			}
			if want := "configmaps is forbidden: no rule allows it"; err != nil && err.Error() != want {
				t.Errorf("the message is %q, want %q", err, want)
			}
		}
		advance(10 * time.Minute)
		if got := lists.Load(); got < 2 {
			t.Errorf("%d lists, want a retry", got)
		}
		woken.want(t, "after further failures", map[cache.ObjectName]int{keyA: 1})
		forbidden.Store(false)
		advance(2 * time.Minute)
		woken.want(t, "after the list succeeded", map[cache.ObjectName]int{keyA: 2, keyB: 1})
		if err := d.Need(keyA, &woken); err != nil {
			t.Error(err)
		}
	})
}

func TestOnDemandListTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		var woken wakes
		from := source(&lists)
		from.ListWithContextFunc = func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		d, stop := demand(t, from)
		defer stop()
		if err := d.Need(keyA, &woken); !IsPending(err) {
			t.Errorf("error before the timeout is %v", err)
		}
		advance(9 * time.Second)
		woken.want(t, "before the timeout", nil)
		advance(2 * time.Second)
		woken.want(t, "after the timeout", map[cache.ObjectName]int{keyA: 1})
		if err := d.Need(keyA, &woken); !errors.Is(err, errNoAnswer) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestOnDemandAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		d, stop := demand(t, source(&lists))
		stop()
		if err := d.Need(keyA, &wakes{}); !errors.Is(err, ErrNotSynced) {
			t.Errorf("error is %v", err)
		}
		if got := lists.Load(); got != 0 {
			t.Errorf("%d lists", got)
		}
	})
}

func TestPendingErrorIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		var passes atomic.Int32
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			if passes.Add(1) == 1 {
				return Result{}, fmt.Errorf("read: %w", &UnfilledError{})
			}
			return Result{}, nil
		}
		r.run()
		r.Enqueue(keyA, SpecChange)
		synctest.Wait()
		r.Enqueue(keyA, DependencyReady)
		advance(time.Minute)
		r.want(pass{keyA, SpecChange, 0}, pass{keyA, SpecChange | DependencyReady | Retry, 0})
		r.finish()
	})
}

// unlisted is a client without support for watch-list requests.
type unlisted struct{}

// IsWatchListSemanticsUnSupported makes client-go list before it watches.
func (unlisted) IsWatchListSemanticsUnSupported() bool { return true }
