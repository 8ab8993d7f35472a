// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

func TestLanes(t *testing.T) {
	key := func(name string) cache.ObjectName { return cache.NewObjectName("", name) }
	tests := []struct {
		name  string
		steps string // "a" pushes, "!a" marks, "~a" touches, "." pops
		want  string
	}{
		{"first in, first out", "a b c . . .", "a b c"},
		{"a marked key overtakes", "a b !c c . . .", "c a b"},
		{"a queued key is moved when touched", "a b !b ~b . .", "b a"},
		{"a touch without a mark moves nothing", "a b ~b . .", "a b"},
		{"a mark moves nothing by itself", "a b !b . .", "a b"},
		{"a mark is used up", "!a a . b a . .", "a b a"},
		{"touched in the fast lane", "!b b !a a ~a . .", "b a"},
		{"one in five is not urgent", "x y !a a !b b !c c !d d !e e !f f . . . . . . . .", "a b c d x e f y"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := &lanes{marked: sets.New[cache.ObjectName]()}
			var got []string
			for step := range strings.FieldsSeq(test.steps) {
				switch {
				case step == ".":
					got = append(got, l.Pop().Name)
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
