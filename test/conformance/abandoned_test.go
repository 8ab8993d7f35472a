// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/example/demoapp-controller/pkg/helm"
)

// TestAbandonedCommand kills Helm at each of its writes. The engine waits for as long as the
// command may still run, and then brings the release to its desired state.
func TestAbandonedCommand(t *testing.T) {
	t.Parallel()
	before, desired, other := values{"message": "one"}, values{"message": "two"}, values{"message": "three", "second": true}
	tests := []struct {
		name string
		// deployed are the earlier revisions.
		deployed []values
		command  func(t *testing.T, s *stock) error
		// writes is the least number of writes of the command.
		writes int
	}{
		{name: "install", command: func(t *testing.T, s *stock) error {
			t.Helper()
			return s.deploy(t.Context(), readChart(t, "faults"), other)
		}, writes: 13},
		{name: "upgrade", deployed: []values{desired}, command: func(t *testing.T, s *stock) error {
			t.Helper()
			return s.deploy(t.Context(), readChart(t, "faults"), other)
		}, writes: 14},
		{name: "rollback", deployed: []values{before, desired}, command: func(t *testing.T, s *stock) error {
			t.Helper()
			return s.rollback(t.Context(), 1)
		}, writes: 6},
		{name: "uninstall", deployed: []values{desired}, command: func(_ *testing.T, s *stock) error { return s.remove(false) }, writes: 13},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(time.Now())
			e := newEngine(t, newNamespace(t), everywhere, func(config *helm.Config) { config.Clock = clock })
			chart := readChart(t, "faults")
			if err := e.converge(t.Context(), e.desired(chart, desired)); err != nil {
				t.Fatal(err)
			}
			want := look(t.Context(), t, e, nil)
			currentState.forget(&want)
			for _, k := range interruptions(test.writes) {
				t.Run(fmt.Sprintf("killed at write %d", k), func(t *testing.T) {
					e.move(t, newNamespace(t))
					for _, deployed := range test.deployed {
						if err := e.converge(t.Context(), e.desired(chart, deployed)); err != nil {
							t.Fatal(err)
						}
					}
					user := stockOn(t, e)
					user.saboteur.arm(k)
					failed := test.command(t, user)

					err := e.follow(e.untilConverged(t, e.desired(chart, desired), want, clock))
					if err != nil {
						t.Errorf("not in the desired state after a command that ended with %v: %v", failed, err)
					}
				})
			}
		})
	}
}

// interruptions returns the numbers of the requests at which an operation that sends last of them
// is interrupted: all, or every fourth and the last in short tests.
func interruptions(last int) []int {
	step := 1
	if testing.Short() {
		step = 4
	}
	var numbers []int
	for k := 1; k < last; k += step {
		numbers = append(numbers, k)
	}
	return append(numbers, last)
}

// untilConverged lets time pass until the release has its desired state, and the world equals the
// world of another player.
func (e *engine) untilConverged(t *testing.T, desired helm.Release, want world, clock *clocktesting.FakePassiveClock) func(context.Context) (bool, error) {
	t.Helper()
	return func(ctx context.Context) (bool, error) {
		err := e.pass(ctx, desired)
		for range maxPasses {
			if e.last.Action == helm.ActionWait {
				clock.SetTime(clock.Now().Add(e.last.RetryAfter))
			}
			if err == nil && e.last.Action == helm.ActionNone {
				break
			}
			err = e.pass(ctx, desired)
		}
		if err != nil || e.last.Action != helm.ActionNone {
			return false, fmt.Errorf("%s because of %s: %w", e.last.Action, e.last.Cause, err)
		}
		got := look(ctx, t, e, nil)
		currentState.forget(&got)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			return false, fmt.Errorf("it differs (-want +got):\n%s", diff)
		}
		return true, nil
	}
}

// TestBrokenWatches ends all watches of the engine. The engine observes later changes, and those
// that happened meanwhile.
func TestBrokenWatches(t *testing.T) {
	t.Parallel()
	var s saboteur
	e := newEngine(t, newNamespace(t), s.get)
	desired := e.desired(readChart(t, "faults"), values{"message": "one"})
	if err := e.converge(t.Context(), desired); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"changed", "changed again"} {
		if err := s.endWatches(); err != nil {
			t.Fatal(err)
		}
		patch := fmt.Sprintf(`{"data": {"message": %q}}`, message)
		_, err := shared.Client.CoreV1().ConfigMaps(e.namespace).
			Patch(t.Context(), "first", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: otherManager})
		if err != nil {
			t.Fatal(err)
		}
		e.await(message, func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) == 1 })
		if err := e.converge(t.Context(), desired); err != nil {
			t.Fatal(err)
		}
	}
}
