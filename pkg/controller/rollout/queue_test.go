// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// watched is a queue that records the objects that it wakes and notifies.
type watched struct {
	*Queue
	t               *testing.T
	woken, notified []string
}

func newWatched(t *testing.T, limits Limits) *watched {
	t.Helper()
	w := &watched{t: t}
	w.Queue = NewQueue(limits,
		func(key cache.ObjectName) { w.woken = append(w.woken, key.Name) },
		func(key cache.ObjectName) { w.notified = append(w.notified, key.Name) })
	return w
}

func key(name string) cache.ObjectName { return cache.NewObjectName("ns", name) }

// ask calls Ask for an object with an age in minutes.
func (w *watched) ask(name string, age int) Answer {
	return w.Ask(key(name), began.Add(-time.Duration(age)*time.Minute), "inputs")
}

// expect checks the objects that were woken and notified since the last call.
func (w *watched) expect(what string, woken, notified []string) {
	w.t.Helper()
	slices.Sort(w.notified)
	if diff := cmp.Diff([][]string{woken, notified}, [][]string{w.woken, w.notified}); diff != "" {
		w.t.Errorf("%s: woken and notified (-want +got):\n%s", what, diff)
	}
	w.woken, w.notified = nil, nil
}

func (w *watched) counts(what string, want Counts) {
	w.t.Helper()
	if got := w.Counts(); got != want {
		w.t.Errorf("%s: counts are %+v, want %+v", what, got, want)
	}
}

func (w *watched) answers(what string, want, got Answer) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: answer %d, want %d", what, got, want)
	}
}

func TestOldestBeginsFirst(t *testing.T) {
	w := newWatched(t, Limits{Active: 1})
	w.answers("the first", Granted, w.ask("first", 0))
	for name, age := range map[string]int{"young": 1, "old": 3, "b-middle": 2, "a-middle": 2} {
		w.answers(name, Queued, w.ask(name, age))
		w.answers(name+" again", Queued, w.ask(name, age))
	}
	w.answers("the first again", Granted, w.ask("first", 0))
	w.expect("none is done", nil, nil)
	w.counts("none is done", Counts{Queued: 4, Active: 1})
	before := "first"
	for _, next := range []string{"old", "a-middle", "b-middle", "young"} {
		w.Set(key(before), Settled)
		w.expect(before+" is done", []string{next}, nil)
		w.answers(next, Granted, w.ask(next, 0))
		before = next
	}
	w.Set(key(before), Settled)
	w.counts("all are done", Counts{})
}

func TestUnusedTurnGoesToNext(t *testing.T) {
	miss := map[string]func(w *watched){
		"settled":      func(w *watched) { w.Set(key("b"), Settled) },
		"still due":    func(w *watched) { w.Set(key("b"), Due) },
		"not known":    func(w *watched) { w.Miss(key("b")) },
		"stands aside": func(w *watched) { w.StandAside(key("b"), "inputs") },
	}
	for name, miss := range miss {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, Limits{Active: 1})
			w.ask("a", 0)
			w.ask("b", 2)
			w.ask("c", 1)
			w.Set(key("a"), Settled)
			w.expect("a is done", []string{"b"}, nil)
			miss(w)
			w.expect("b does not begin", []string{"c"}, nil)
			w.counts("b does not begin", Counts{Active: 1})
		})
	}
}

func TestMissKeepsActiveObject(t *testing.T) {
	w := newWatched(t, Limits{Active: 1})
	w.ask("a", 0)
	w.ask("b", 0)
	w.Miss(key("a"))
	w.expect("a has begun", nil, nil)
	w.Set(key("a"), Settled)
	w.expect("a is done", []string{"b"}, nil)
	w.answers("b", Granted, w.ask("b", 0))
	w.Miss(key("b"))
	w.counts("b has begun", Counts{Active: 1})
}

func TestObjectLeavesLine(t *testing.T) {
	w := newWatched(t, Limits{Active: 1})
	w.ask("a", 0)
	w.ask("b", 2)
	w.ask("c", 1)
	w.Set(key("b"), Due)
	w.counts("b is still due", Counts{Queued: 2, Active: 1})
	w.StandAside(key("b"), "inputs")
	w.Set(key("b"), Due)
	w.counts("b stands aside", Counts{Queued: 1, Active: 1})
	w.Set(key("a"), Settled)
	w.expect("a is done", []string{"c"}, nil)
	w.answers("b asks again", Queued, w.ask("b", 2))
	w.Set(key("c"), Active)
	w.Set(key("b"), Active)
	w.counts("b is active without an answer", Counts{Active: 2})
	w.answers("d", Queued, w.ask("d", 9))
	w.Set(key("c"), Settled)
	w.expect("b is still active", nil, nil)
}

func TestHalt(t *testing.T) {
	w := newWatched(t, Limits{Active: 2, Failed: 2})
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		w.ask(name, 9-i)
	}
	if w.StandAside(key("aside"), "inputs") {
		t.Error("halted before an object has failed")
	}
	w.Set(key("a"), Failed)
	w.expect("one has failed", []string{"c"}, nil)
	w.Set(key("b"), Failed)
	w.expect("two have failed", nil, []string{"aside", "d", "e"})
	w.counts("two have failed", Counts{Queued: 2, Active: 1, Failed: 2})
	w.Set(key("c"), Settled)
	w.expect("the active object is settled", nil, nil)
	w.answers("waiting object", Halted, w.ask("d", 6))
	w.answers("new object", Halted, w.ask("f", 0))
	if !w.StandAside(key("aside"), "inputs") {
		t.Error("not halted for an object that stands aside")
	}
	w.Set(key("b"), Active)
	w.expect("one has recovered", []string{"d"}, []string{"aside", "e", "f"})
	w.Set(key("b"), Failed)
	w.expect("the recovered object fails again", nil, []string{"aside", "e", "f"})
	w.Set(key("a"), Settled)
	w.expect("the other failed object is deleted", []string{"e"}, []string{"aside", "f"})
	w.answers("failed object asks again", Queued, w.ask("b", 0))
}

func TestFailedObjectResumesRolloutWhenItAsks(t *testing.T) {
	w := newWatched(t, Limits{Active: 1, Failed: 1})
	w.Set(key("a"), Failed)
	w.answers("b", Halted, w.ask("b", 1))
	w.expect("b got an answer", nil, nil)
	w.answers("a", Queued, w.ask("a", 0))
	w.expect("b begins first", []string{"b"}, nil)
}

func TestNoLimits(t *testing.T) {
	w := newWatched(t, Limits{})
	for i := range 100 {
		name := fmt.Sprint(i)
		w.answers(name, Granted, w.ask(name, i))
		w.Set(key(name), Failed)
	}
	w.answers("one more", Granted, w.ask("one more", 0))
	w.counts("without limits", Counts{Active: 1, Failed: 100})
}

func TestRecall(t *testing.T) {
	w := newWatched(t, Limits{Active: 1})
	w.ask("a", 0)
	w.ask("b", 0)
	for _, test := range []struct {
		name     string
		standing Standing
		want     bool
	}{
		{"a", Failed, false}, {"b", Active, false}, {"settled", Settled, false}, {"due", Due, false}, {"active", Active, true}, {"failed", Failed, true},
	} {
		if got := w.Recall(key(test.name), test.standing); got != test.want {
			t.Errorf("%s: Recall() = %t, want %t", test.name, got, test.want)
		}
	}
	w.counts("recalled", Counts{Queued: 1, Active: 2, Failed: 1})
	w.Set(key("a"), Settled)
	w.expect("one of two is done", nil, nil)
}

func TestAsked(t *testing.T) {
	w := newWatched(t, Limits{Active: 1})
	asked := func(name, want string) {
		t.Helper()
		if got, _ := w.Asked(key(name)); got != want {
			t.Errorf("inputs of %s are %q, want %q", name, got, want)
		}
	}
	w.ask("a", 0)
	asked("a", "")
	w.ask("b", 0)
	w.Ask(key("b"), began, "others")
	asked("b", "inputs")
	w.StandAside(key("b"), "inputs")
	w.StandAside(key("b"), "others")
	asked("b", "inputs")
}

// TestManyQueuedObjects checks that each queued object is woken once.
func TestManyQueuedObjects(t *testing.T) {
	const many = 5000
	w := newWatched(t, Limits{Active: 10})
	var active []string
	for i := range many {
		if name := fmt.Sprintf("web-%04d", i); w.ask(name, i%100) == Granted {
			active = append(active, name)
		}
	}
	for len(active) > 0 {
		if len(active) > 10 {
			t.Fatalf("%d objects are active, want at most 10", len(active))
		}
		w.Set(key(active[0]), Settled)
		active = append(active[1:], w.woken...)
		w.woken = nil
	}
	w.counts("all are done", Counts{})
}
