// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
)

// operatorSlots bounds the runs side by side that have operators of their own.
var operatorSlots = make(chan struct{}, 6)

// withSlot waits for a free slot, and holds it while do runs.
func withSlot(do func()) {
	operatorSlots <- struct{}{}
	defer func() { <-operatorSlots }()
	do()
}

// TestKilledAfterEachRequest kills the operator after each request that it sends for a subject, and
// the next one after its first request. Each run has an operator of its own, which watches one
// namespace. A short test plays some subjects, each with one request, which the seed selects.
func TestKilledAfterEachRequest(t *testing.T) { //nolint:tparallel // The shared operator does not run meanwhile.
	stopShared(t)
	names, random := slices.Sorted(maps.Keys(subjects)), rand.New(rand.NewPCG(uint64(*seed), 0))
	if testing.Short() {
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:shortCrashes]
	}
	for _, name := range names {
		draw := random.Int()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want outcome
			var sent []string
			withSlot(func() { want, sent = playAlone(t, subjects[name]) })
			first, last := 1, len(sent)
			if testing.Short() {
				first = draw%len(sent) + 1
				last = first
			}
			for nth := first; nth <= last; nth++ {
				t.Run(strconv.Itoa(nth), func(t *testing.T) {
					t.Parallel()
					t.Logf("killed after the request %q of the undisturbed run", sent[nth-1])
					withSlot(func() { playCrash(t, subjects[name], nth, want) })
				})
			}
		})
	}
}

// playAlone plays a subject without a fault, with an operator of its own. An operator that watches
// some namespaces does not see changes of Namespaces.
func playAlone(t *testing.T, s subject) (outcome, []string) {
	t.Helper()
	namespaces := []string{shared.Namespace(t), shared.Namespace(t)}
	own := launchFor(namespaces...)
	alone := newRestarts(t, own, own)
	defer alone.end()
	return playUndisturbed(t, s, namespaces...)
}

// launchFor describes an operator of some namespaces. A killed operator does not release its lease,
// and the next one would wait for its end each time.
func launchFor(namespaces ...string) cluster.Launch {
	own := launch
	own.Args = slices.Concat(launch.Args, []string{"--leader-elect=false", "--namespaces=" + strings.Join(namespaces, ",")})
	return own
}

// playCrash plays a subject whose operator is killed after a request, from 1.
func playCrash(t *testing.T, s subject, nth int, want outcome) {
	t.Helper()
	namespace := shared.Namespace(t)
	countMet(t, namespace, inARow)
	own := launchFor(namespace)
	r := newRestarts(t, own, own)
	defer r.end()
	sabotage.watch(namespace, plan{nth: nth, times: inARow, fault: r.crash, meets: once()})
	defer logRequests(t, namespace)

	came := play(t, s, namespace, &want, nil, ofFault)

	r.assertSelfEnded(t, 0)
	assertAudits(t, want, came)
}

// logRequests logs the requests of a failed run.
func logRequests(t *testing.T, namespace string) {
	t.Helper()
	if t.Failed() {
		t.Logf("requests: %q", sabotage.sent(namespace))
	}
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
	// end ends the operator, and starts no other one.
	end func()
	// selfEnded is the number of processes that have ended by themselves.
	selfEnded atomic.Int32

	mu      sync.Mutex
	current *cluster.Operator
	// ending is the last process that the test has ended.
	ending *cluster.Operator
}

// newRestarts starts an operator, and the next one whenever an operator has ended. The caller has
// to call end before the test is over.
func newRestarts(t *testing.T, first, next cluster.Launch) *restarts {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	r := &restarts{current: first.Start(ctx, t, shared)}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			current := r.running()
			select {
			case <-done:
				return
			case <-current.Exited():
				started := next.Start(ctx, t, shared)
				r.mu.Lock()
				if r.current = started; r.ending != current {
					r.selfEnded.Add(1)
				}
				r.mu.Unlock()
			}
		}
	}()
	r.end = sync.OnceFunc(func() {
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

// ends returns the running operator, which the test is about to end.
func (r *restarts) ends() *cluster.Operator {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = r.current
	return r.current
}

// assertSelfEnded asserts how many processes have ended by themselves.
func (r *restarts) assertSelfEnded(t *testing.T, want int32) {
	t.Helper()
	if ended := r.selfEnded.Load(); ended != want {
		t.Errorf("%d operators have ended by themselves, want %d", ended, want)
	}
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
	r.ends().Kill()
	panic(http.ErrAbortHandler)
}
