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
	"sync"
	"testing"

	"github.com/example/demoapp-controller/test/cluster"
)

// shortCrashes is the number of subjects for which a short test kills the operator.
const shortCrashes = 3

// inARow is the number of crashes in a row: a request kills the operator, and the next one the next
// operator.
const inARow = 2

// TestKilledAfterEachRequest kills the operator twice in a row for each subject, while all other
// subjects are in work: after each request that the operator sends for it. A short test kills it
// after some requests, which the seed selects.
func TestKilledAfterEachRequest(t *testing.T) {
	playAllUndisturbed(t)
	operator.StopOrderly(t)
	// A killed operator does not release its lease, and the next one would wait for its end each time.
	restarts := newRestarts(t, "--leader-elect=false")
	for _, round := range crashes(t, restarts.crash) {
		t.Run("round", func(t *testing.T) {
			for name, s := range subjects {
				want, _ := undisturbed[name](t)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					if round[name].nth > 0 {
						count(t, 1)
					}
					namespace := shared.Namespace(t)
					sabotage.watch(namespace, round[name])

					came := play(t, s, namespace, &want, nil, ofFault)

					if came.audits != want.audits {
						t.Errorf("%d audit records, want %d", came.audits, want.audits)
					}
				})
			}
		})
	}
}

// crashes returns the plans of each round by subject. A subject without a plan is not the cause of
// a crash.
func crashes(t *testing.T, crash fault) []map[string]plan {
	t.Helper()
	names := slices.Sorted(maps.Keys(subjects))
	if testing.Short() {
		random, round := rand.New(rand.NewPCG(uint64(*seed), 0)), map[string]plan{}
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names[:shortCrashes] {
			_, sent := undisturbed[name](t)
			round[name] = plan{random.IntN(len(sent)) + 1, inARow, crash}
		}
		return []map[string]plan{round}
	}
	var rounds []map[string]plan
	for _, name := range names {
		_, sent := undisturbed[name](t)
		for nth := range sent {
			if nth == len(rounds) {
				rounds = append(rounds, map[string]plan{})
			}
			rounds[nth][name] = plan{nth + 1, inARow, crash}
		}
	}
	return rounds
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
		operator = launch.Start(ctx, mainTest, shared).AwaitReady(ctx, mainTest)
	})
	return r
}

func (r *restarts) running() *cluster.Operator {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// crash is the fault that kills the operator after a request, before the answer.
func (r *restarts) crash(_ http.ResponseWriter, request *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), request)
	r.running().Kill()
	panic(http.ErrAbortHandler)
}
