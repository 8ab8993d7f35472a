// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/example/demoapp-controller/test/cluster"
)

const (
	// shortCrashes is the number of subjects for which a short test kills the operator.
	shortCrashes = 3
	// inARow is the number of consecutive crashes: a request kills the operator, and the first one of
	// the next operator kills that one.
	inARow = 2
	// crashesAtOnce is the number of runs side by side. Each has an operator of its own.
	crashesAtOnce = 6
)

// TestKilledAfterEachRequest kills the operator after each request that it sends for a subject, and
// the next one after its first request. Each run has an operator of its own, which watches one
// namespace. A short test plays some subjects, each with one request, which the seed selects.
func TestKilledAfterEachRequest(t *testing.T) {
	playAllUndisturbed(t)
	stopShared(t)
	slots := make(chan struct{}, crashesAtOnce)
	t.Run("subjects", func(t *testing.T) {
		for _, c := range crashes(t) {
			t.Run(fmt.Sprintf("%s/%d", c.subject, c.nth), func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				playCrash(t, c)
			})
		}
	})
}

// A crash kills the operator after a request for a subject, from 1.
type crash struct {
	subject string
	nth     int
}

func playCrash(t *testing.T, c crash) {
	t.Helper()
	want, sent := undisturbed[c.subject](t)
	namespace := shared.Namespace(t)
	countMet(t, namespace, inARow)
	// A killed operator does not release its lease, and the next one would wait for its end each time.
	r := newRestarts(t, "--leader-elect=false", "--namespaces="+namespace)
	sabotage.watch(namespace, plan{nth: c.nth, times: inARow, fault: r.crash, meets: once()})
	defer func() {
		if t.Failed() {
			t.Logf("killed after the request %q of the undisturbed run; this one sent: %q", sent[c.nth-1], sabotage.sent(namespace))
		}
	}()

	came := play(t, subjects[c.subject], namespace, &want, nil, ofFault)

	if came.audits != want.audits {
		t.Errorf("%d audit records, want %d", came.audits, want.audits)
	}
}

// crashes returns the crashes of a test.
func crashes(t *testing.T) []crash {
	t.Helper()
	names := slices.Sorted(maps.Keys(subjects))
	var all []crash
	if testing.Short() {
		random := rand.New(rand.NewPCG(uint64(*seed), 0))
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names[:shortCrashes] {
			_, sent := undisturbed[name](t)
			all = append(all, crash{name, random.IntN(len(sent)) + 1})
		}
		return all
	}
	for _, name := range names {
		_, sent := undisturbed[name](t)
		for nth := range sent {
			all = append(all, crash{name, nth + 1})
		}
	}
	return all
}

// stopShared stops the operator that all runs share, and starts it again at the end of the test.
func stopShared(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	operator.StopOrderly(t)
	t.Cleanup(func() { operator = launch.Start(ctx, mainTest, shared).AwaitReady(ctx, mainTest) })
}

// restarts keeps an operator running, as a Deployment does.
type restarts struct {
	// count is the number of restarts.
	count int

	mu      sync.Mutex
	current *cluster.Operator
}

// newRestarts starts an operator, and starts it again whenever it has ended, until the end of the
// test.
func newRestarts(t *testing.T, args ...string) *restarts {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	again := launch
	again.Args = slices.Concat(launch.Args, args)
	r := &restarts{current: again.Start(ctx, t, shared)}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-r.running().Exited():
				next := again.Start(ctx, t, shared)
				r.mu.Lock()
				r.current = next
				r.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-ended
		r.current.Stop()
	})
	return r
}

func (r *restarts) running() *cluster.Operator {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// once returns a function that selects one request of each process.
func once() func(*http.Request) bool {
	known := sets.New[string]()
	return func(request *http.Request) bool {
		// Each process has a token of its own.
		token := request.Header.Get("Authorization")
		defer known.Insert(token)
		return !known.Has(token)
	}
}

// crash is the fault that kills the operator after a request, before the answer.
func (r *restarts) crash(_ http.ResponseWriter, request *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), request)
	r.running().Kill()
	panic(http.ErrAbortHandler)
}
