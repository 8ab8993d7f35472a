// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller/controllertest/passlog"
	"github.com/example/demoapp-controller/pkg/shardcache"
)

// World is where controllers run in a test: fake clientsets with stamps, informers that
// follow them, a journal of all requests and events, and the time of a bubble of
// testing/synctest. Use it inside synctest.Test only.
//
// A test changes objects through a clientset, calls [World.Settle], and checks the requests and
// events of the controllers. [World.Wait] lets time pass, at once.
type World struct {
	t *testing.T

	mu      sync.Mutex
	journal []string
	// actor is the goroutine whose requests are not recorded.
	actor     string
	refuse    func(request string) error
	informers map[string]cache.SharedIndexInformer
	waiting   []cache.SharedIndexInformer

	// log has the lines of the controllers. It is checked at the end of the test.
	log passlog.Recorder

	end     func()
	running sync.WaitGroup
}

// NewWorld stamps the clientsets and records their requests from now on.
func NewWorld(t *testing.T, clientsets ...Clientset) *World {
	t.Helper()
	w := &World{t: t, informers: map[string]cache.SharedIndexInformer{}}
	for _, clientset := range clientsets {
		Stamp(clientset)
		clientset.PrependReactor("*", "*", w.react)
	}
	t.Cleanup(func() {
		w.Stop()
		w.log.Check(t)
	})
	return w
}

// Informers builds an informer of all namespaces for each name, which runs with the
// controllers. It has the form of operator.Environment's method.
func (w *World) Informers(
	name string, build func(namespace string) (cache.SharedIndexInformer, error),
) (map[string]cache.SharedIndexInformer, error) {
	informer, ok := w.informers[name]
	if !ok {
		var err error
		if informer, err = build(metav1.NamespaceAll); err != nil {
			return nil, err
		}
		w.informers[name] = informer
		w.waiting = append(w.waiting, informer)
	}
	return map[string]cache.SharedIndexInformer{metav1.NamespaceAll: informer}, nil
}

// Selection selects all shards.
func (w *World) Selection() *shardcache.Selection { return nil }

// Run starts the informers and a controller, and returns when nothing is left to do.
func (w *World) Run(run func(stop, lead context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	before := w.end
	w.end = func() {
		if before != nil {
			before()
		}
		cancel()
	}
	for _, informer := range w.waiting {
		w.running.Go(func() { informer.RunWithContext(ctx) })
	}
	w.waiting = nil
	w.running.Go(func() {
		if err := run(ctx, w.log.Context(context.Background())); err != nil {
			w.t.Errorf("controller: %v", err)
		}
	})
	w.Settle()
}

// Stop ends the controllers and informers, as the end of the process does. Afterwards
// Informers builds new ones.
func (w *World) Stop() {
	if w.end != nil {
		w.end()
	}
	w.running.Wait()
	w.end, w.informers, w.waiting = nil, map[string]cache.SharedIndexInformer{}, nil
}

// settling is more than it takes to notice that caches have synced, and less than the delay
// of a retry.
const settling = 100 * time.Millisecond

// Settle returns when all remaining work waits for a longer time to pass.
func (w *World) Settle() { w.Wait(settling) }

// Wait lets time pass, and returns when nothing is left to do.
func (*World) Wait(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // It moves the clock of the bubble.
	synctest.Wait()
}

// Act calls f, whose requests are not recorded, and lets the controllers follow.
func (w *World) Act(f func() error) {
	w.t.Helper()
	w.setActor(goroutine())
	err := f()
	w.setActor("")
	if err != nil {
		w.t.Fatal(err)
	}
	w.Settle()
}

func (w *World) setActor(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.actor = name
}

// goroutine names the calling goroutine. A request of a fake clientset runs in the goroutine that
// makes it, so the name distinguishes a test's requests from the requests of its controllers.
func goroutine() string {
	name, _, _ := strings.Cut(string(debug.Stack()), " [")
	return name
}

// Refuse has requests fail with the error that f returns for them, written as in the journal; nil
// lets them pass.
func (w *World) Refuse(f func(request string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = f
}

// Take returns what the controllers sent since the last call, in the order in which it was
// sent: requests such as "patch deployments/web" and "patch websites/web status", without requests
// of informers, and events such as "event Normal Healthy".
func (w *World) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := slices.Clone(w.journal)
	w.journal = nil
	return taken
}

// Log returns all log lines of the controllers, at all levels, as JSON.
func (w *World) Log() string { return w.log.String() }

// Eventf implements events.EventRecorder.
func (w *World) Eventf(_, _ runtime.Object, eventType, reason, _, _ string, _ ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.journal = append(w.journal, "event "+eventType+" "+reason)
}

func (w *World) react(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.actor == goroutine() || action.GetVerb() == "list" || action.GetVerb() == "watch" {
		return false, nil, nil
	}
	request := strings.TrimSpace(fmt.Sprintf("%s %s/%s %s",
		action.GetVerb(), action.GetResource().Resource, nameOf(action), action.GetSubresource()))
	w.journal = append(w.journal, request)
	if w.refuse != nil {
		if err := w.refuse(request); err != nil {
			return true, nil, err
		}
	}
	return false, nil, nil
}

func nameOf(action clienttesting.Action) string {
	switch a := action.(type) {
	case clienttesting.CreateAction: // Updates are of this form, too.
		if accessor, err := meta.Accessor(a.GetObject()); err == nil {
			return accessor.GetName()
		}
	case interface{ GetName() string }:
		return a.GetName()
	}
	return ""
}
