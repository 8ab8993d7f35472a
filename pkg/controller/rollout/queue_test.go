// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
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
		func(key cache.ObjectName) { w.woken = append(w.woken, nameOf(key)) },
		func(key cache.ObjectName) { w.notified = append(w.notified, nameOf(key)) })
	return w
}

// key is the key of "name" in the namespace "ns", or of "namespace/name".
func key(name string) cache.ObjectName {
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		return cache.NewObjectName(namespace, name)
	}
	return cache.NewObjectName("ns", name)
}

// nameOf is the inverse of key.
func nameOf(key cache.ObjectName) string { return strings.TrimPrefix(key.String(), "ns/") }

// ask calls Ask for an object with an age in minutes.
func (w *watched) ask(name string, age int) Answer {
	return w.Ask(key(name), began.Add(-time.Duration(age)*time.Minute))
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
		"settled":    func(w *watched) { w.Set(key("b"), Settled) },
		"still due":  func(w *watched) { w.Set(key("b"), Due) },
		"not known":  func(w *watched) { w.MarkUnknown(key("b")) },
		"is blocked": func(w *watched) { w.Block(key("b")) },
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
	w.MarkUnknown(key("a"))
	w.expect("a has begun", nil, nil)
	w.Set(key("a"), Settled)
	w.expect("a is done", []string{"b"}, nil)
	w.answers("b", Granted, w.ask("b", 0))
	w.MarkUnknown(key("b"))
	w.counts("b has begun", Counts{Active: 1})
}

func TestObjectLeavesLine(t *testing.T) {
	w := newWatched(t, Limits{Active: 1})
	w.ask("a", 0)
	w.ask("b", 2)
	w.ask("c", 1)
	w.Set(key("b"), Due)
	w.counts("b is still due", Counts{Queued: 2, Active: 1})
	w.Block(key("b"))
	w.Set(key("b"), Due)
	w.counts("b is blocked", Counts{Queued: 1, Active: 1})
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
	w.answers("blocked, before an object has failed", Queued, w.Block(key("blocked")))
	w.Set(key("a"), Failed)
	w.expect("one has failed", []string{"c"}, nil)
	w.Set(key("b"), Failed)
	w.expect("two have failed", nil, []string{"blocked", "d", "e"})
	w.counts("two have failed", Counts{Queued: 2, Active: 1, Failed: 2})
	w.Set(key("c"), Settled)
	w.expect("the active object is settled", nil, nil)
	w.answers("waiting object", HaltedNamespace, w.ask("d", 6))
	w.answers("new object", HaltedNamespace, w.ask("f", 0))
	w.answers("object that is blocked", HaltedNamespace, w.Block(key("blocked")))
	w.Set(key("b"), Active)
	w.expect("one has recovered", []string{"d"}, []string{"blocked", "e", "f"})
	w.Set(key("b"), Failed)
	w.expect("the recovered object fails again", nil, []string{"blocked", "e", "f"})
	w.Set(key("a"), Settled)
	w.expect("the other failed object is deleted", []string{"e"}, []string{"blocked", "f"})
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

// TestFailuresElsewhereHalt: objects of other processes halt the rollout, but belong to the counts
// of the other processes.
func TestFailuresElsewhereHalt(t *testing.T) {
	w := newWatched(t, Limits{Active: 1, Failed: 2})
	w.ask("a", 0)
	w.ask("b", 0)
	w.Set(key("other/1"), FailedElsewhere)
	w.Set(key("another/1"), FailedElsewhere)
	w.expect("two namespaces have failed", nil, []string{"b"})
	w.counts("halted", Counts{Queued: 1, Active: 1, Halted: true})

	w.Set(key("a"), Settled)
	w.expect("halted, so none begins", nil, nil)
	w.Set(key("another/1"), Settled)
	w.expect("one has recovered", []string{"b"}, nil)

	w.Recall(key("other/1"), Failed)
	w.counts("the process has taken the object", Counts{Active: 1, Failed: 1})
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

// TestFailuresHaltTheirNamespace checks that a namespace counts once for the halt of all
// namespaces.
func TestFailuresHaltTheirNamespace(t *testing.T) {
	w := newWatched(t, Limits{Failed: 2})
	for _, name := range []string{"bad/1", "bad/2", "bad/3"} {
		w.Set(key(name), Failed)
	}
	w.answers("in the namespace that failed", HaltedNamespace, w.ask("bad/4", 0))
	w.answers("in another namespace", Granted, w.ask("good/1", 0))

	w.answers("blocked in another namespace", Queued, w.Block(key("good/2")))
	w.Set(key("good/1"), Failed)
	w.expect("two namespaces have failed objects", nil, []string{"bad/4", "good/2"})
	w.answers("in a third namespace", Halted, w.ask("third/1", 0))

	w.Set(key("good/1"), Settled)
	w.expect("one namespace has failed objects", []string{"third/1"}, []string{"bad/4", "good/2"})
	w.answers("in the namespace that failed", HaltedNamespace, w.ask("bad/4", 0))
	w.Set(key("bad/1"), Settled)
	w.Set(key("bad/2"), Settled)
	w.expect("one object has failed", []string{"bad/4"}, nil)
}

// TestNamespaceHasItsShare checks that the active objects of one namespace, which may stay active
// for hours, leave places for other namespaces.
func TestNamespaceHasItsShare(t *testing.T) {
	w := newWatched(t, Limits{Active: 10})
	w.Recall(key("late/1"), Due)
	for i := range 20 {
		w.ask(fmt.Sprintf("slow/%d", i), 9)
	}
	w.counts("while another namespace is due", Counts{Queued: 15, Active: 5})
	w.answers("the other namespace", Granted, w.ask("late/1", 0))
	w.expect("no further namespace waits", []string{"slow/10", "slow/11", "slow/12", "slow/13"}, nil)
	w.counts("no further namespace waits", Counts{Queued: 11, Active: 10})
}

// TestOwnChangesTakeShareOnly checks that objects that begin without an answer take no
// place of other namespaces.
func TestOwnChangesTakeShareOnly(t *testing.T) {
	w := newWatched(t, Limits{Active: 4})
	for i := range 20 {
		w.Set(key(fmt.Sprintf("busy/%d", i)), Active)
	}
	w.answers("first of another namespace", Granted, w.ask("other/1", 0))
	w.answers("second of another namespace", Granted, w.ask("other/2", 0))
	w.answers("third of another namespace", Queued, w.ask("other/3", 0))
	w.answers("of the busy namespace", Queued, w.ask("busy/new", 9))
}

// TestNamespacesTakeTurns checks that the objects of a large and old namespace do not all precede
// the objects of other namespaces.
func TestNamespacesTakeTurns(t *testing.T) {
	w := newWatched(t, Limits{Active: 1})
	w.ask("old/0", 9)
	for i := range 100 {
		w.ask(fmt.Sprintf("old/%d", i), 9)
	}
	w.ask("young/0", 1)
	w.ask("young/1", 1)
	w.ask("third/0", 1)
	var turns []string
	before := "old/0"
	for range 6 {
		w.Set(key(before), Settled)
		before = w.woken[0]
		turns, w.woken = append(turns, before), nil
	}
	want := []string{"third/0", "young/0", "old/1", "young/1", "old/10", "old/11"}
	if diff := cmp.Diff(want, turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}

// TestActiveLimitChanges: a larger limit wakes waiting objects, and a smaller one lets active
// objects go on.
func TestActiveLimitChanges(t *testing.T) {
	w := newWatched(t, Limits{Active: 1})
	for _, name := range []string{"a/1", "b/1", "c/1", "d/1"} {
		w.ask(name, 0)
	}

	w.SetActive(3)
	w.expect("a larger limit", []string{"b/1", "c/1"}, nil)
	w.SetActive(1)
	w.Set(key("a/1"), Settled)
	w.Set(key("b/1"), Settled)
	w.expect("a smaller limit", nil, nil)
	w.Set(key("c/1"), Settled)
	w.expect("the last active object has settled", []string{"d/1"}, nil)
}
