// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

func TestLanes(t *testing.T) {
	key := func(name string) cache.ObjectName { return cache.NewObjectName("", name) }
	tests := []struct {
		name  string
		steps string // "a" pushes, "!a" marks, "~a" touches, "." pops, "-a" is done, "#" counts
		want  string
	}{
		{"first in, first out", "a b c . . .", "a b c"},
		{"a marked key overtakes", "a b !c c . . .", "c a b"},
		{"a queued key is moved when touched", "a b !b ~b . .", "b a"},
		{"a touch without a mark moves nothing", "a b ~b . .", "a b"},
		{"a mark moves nothing by itself", "a b !b . .", "a b"},
		{"a mark is used up", "!a a . b a . .", "a b a"},
		{"touched in the fast lane", "!b b !a a ~a . .", "b a"},
		{"there is room for two", "a b c d . . # !e e . # -a . # -b . #", "a b 0 e 0 c 0 d 0"},
		{"what is urgent takes no room", "!a a !b b c d . . . # . #", "a b c 1 d 0"},
		{"one in five is not urgent", "x y !a a !b b !c c !d d !e e !f f . . . . . . . .", "a b c d x e f y"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLanes(2)
			var got []string
			for step := range strings.FieldsSeq(test.steps) {
				switch {
				case step == ".":
					got = append(got, l.Pop().Name)
				case step == "#":
					got = append(got, strconv.Itoa(l.Len()))
				case step[0] == '-':
					l.done(key(step[1:]))
				case step[0] == '!':
					l.mark(key(step[1:]))
				case step[0] == '~':
					l.Touch(key(step[1:]))
				default:
					l.Push(key(step))
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("order is %v, want %v", got, test.want)
			}
			if l.Len() != 0 {
				t.Errorf("%d keys are left", l.Len())
			}
		})
	}
}

func TestDriftOvertakesInstalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			time.Sleep(time.Second)
			return Result{}, nil
		}
		r.run()
		for _, name := range []string{"1", "2", "3"} {
			r.Enqueue(cache.NewObjectName("ns", name), SpecChange)
		}
		advance(100 * time.Millisecond)
		r.Enqueue(keyA, Drift)
		advance(10 * time.Second)
		var order []string
		for _, p := range r.seen() {
			order = append(order, p.key.Name)
		}
		if want := []string{"1", "a", "2", "3"}; !slices.Equal(order, want) {
			t.Errorf("order is %v, want %v", order, want)
		}
		if n := r.queue.known(); n != 0 {
			t.Errorf("queue still knows %d keys", n)
		}
		r.finish()
	})
}

// TestDriftWaitsForNobody: one worker is free for what is urgent, and takes nothing
// else.
func TestDriftWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Workers: 2})
		var ordinary, most atomic.Int32
		begun := time.Now()
		var waited time.Duration
		r.reconcile = func(_ context.Context, key cache.ObjectName, _ Reason) (Result, error) {
			if key == keyA {
				waited = time.Since(begun)
				return Result{}, nil
			}
			if now := ordinary.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer ordinary.Add(-1)
			time.Sleep(time.Second)
			return Result{}, nil
		}
		r.run()
		for i := range 5 {
			r.Enqueue(cache.NewObjectName("ns", strconv.Itoa(i)), SpecChange)
		}
		advance(100 * time.Millisecond)
		begun = time.Now()
		r.Enqueue(keyA, Drift)
		advance(10 * time.Second)
		if waited != 0 {
			t.Errorf("drift waited for %v", waited)
		}
		if got := most.Load(); got != 2 {
			t.Errorf("%d others were on their way at a time, want 2", got)
		}
		if n := len(r.seen()); n != 6 {
			t.Errorf("%d passes, want 6", n)
		}
		r.finish()
	})
}

// TestQueuedKeyThatBecomesUrgent: the worker that is kept free is woken for it.
func TestQueuedKeyThatBecomesUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(_ context.Context, key cache.ObjectName, _ Reason) (Result, error) {
			if key != keyA {
				time.Sleep(time.Second)
			}
			return Result{}, nil
		}
		r.run()
		r.Enqueue(keyB, SpecChange)
		synctest.Wait()
		r.Enqueue(keyA, SpecChange)
		synctest.Wait()
		r.Enqueue(keyA, Drift)
		r.want(pass{keyB, SpecChange, 0}, pass{keyA, SpecChange | Drift, 0})
		advance(time.Second)
		if n := r.queue.known(); n != 0 {
			t.Errorf("queue still knows %d keys", n)
		}
		r.finish()
	})
}

// TestStopWithKeysForWhichThereIsNoRoom: they are given back untouched.
func TestStopWithKeysForWhichThereIsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			time.Sleep(time.Second)
			return Result{}, nil
		}
		r.run()
		for i := range 5 {
			r.Enqueue(cache.NewObjectName("ns", strconv.Itoa(i)), SpecChange)
		}
		synctest.Wait()
		r.stop(nil)
		advance(time.Second)
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		r.lead(nil)
		if n := len(r.seen()); n != 1 {
			t.Errorf("%d passes, want the one that was on its way", n)
		}
		if n := r.queue.order.Len(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}
