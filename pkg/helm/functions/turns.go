// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package functions

import (
	"context"
	"runtime"
	"sync"
)

// Turns bounds the renderings of each namespace that run at a time to half of the processors, and to
// at least one. Namespaces do not wait for each other. The zero value is ready for use.
type Turns struct {
	mu         sync.Mutex
	namespaces map[string]*turns
}

type turns struct {
	free chan struct{}
	// users are the renderings that run or wait.
	users int
}

// Begin waits for the turn of a rendering, and returns the function that ends it. If stop or ctx
// ends first, Begin returns [ErrStopped] or the cause.
func (t *Turns) Begin(stop, ctx context.Context, namespace string) (end func(), err error) {
	of := t.join(namespace)
	leave := func() { t.leave(namespace, of) }
	select {
	case of.free <- struct{}{}:
		return sync.OnceFunc(func() {
			<-of.free
			leave()
		}), nil
	case <-stop.Done():
		leave()
		return nil, ErrStopped
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

func (t *Turns) join(namespace string) *turns {
	t.mu.Lock()
	defer t.mu.Unlock()
	of, ok := t.namespaces[namespace]
	if !ok {
		if t.namespaces == nil {
			t.namespaces = map[string]*turns{}
		}
		of = &turns{free: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
		t.namespaces[namespace] = of
	}
	of.users++
	return of
}

func (t *Turns) leave(namespace string, of *turns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of.users--; of.users == 0 {
		delete(t.namespaces, namespace)
	}
}
