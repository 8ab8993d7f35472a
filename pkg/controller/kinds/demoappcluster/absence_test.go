// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

// pendingNames returns the names of the pending removals of "web".
func (w *world) pendingNames() (names []string) {
	w.t.Helper()
	for _, r := range w.stored().Status.PendingRemovals {
		names = append(names, r.Name)
	}
	return names
}

// after makes a pass when d has passed since began.
func (w *world) after(d time.Duration) controller.Result {
	w.t.Helper()
	w.clock.SetTime(began.Add(d))
	w.sync()
	result, err := w.latePass()
	expect.NoError(w.t, err)
	return result
}

// TestAppOutlivesAbsentNode takes a node away for less than the grace period, in each way. The app stays as
// it is, and the status lists it meanwhile.
func TestAppOutlivesAbsentNode(t *testing.T) {
	labels := map[string]string{"disk": "ssd"}
	now := metav1.NewTime(began)
	ways := map[string]func(*world){
		"deleted":       func(w *world) { w.removeNode("a") },
		"label removed": func(w *world) { w.node("a", nil) },
		"label changed": func(w *world) { w.node("a", map[string]string{"disk": "hdd"}) },
		"all deleted":   func(w *world) { w.removeNode("a"); w.removeNode("b") },
		"being deleted": func(w *world) {
			node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels, DeletionTimestamp: &now}}
			expect.NoError(w.t, w.nodes.informer.GetStore().Update(node))
		},
		"deleted while the template changes": func(w *world) {
			w.removeNode("a")
			w.change(func(c *v1alpha1.DemoAppCluster) { c.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{} })
		},
		"label removed while the selector gets another label that the node has": func(w *world) {
			w.node("a", map[string]string{"zone": "a"})
			w.node("b", map[string]string{"disk": "ssd", "zone": "a"})
			w.change(func(c *v1alpha1.DemoAppCluster) { c.Spec.NodeSelector["zone"] = "a" })
		},
	}
	for name, take := range ways {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %t", name, restarts), func(t *testing.T) {
				w := newWorld(t)
				w.node("a", labels)
				w.node("b", labels)
				w.cluster(func(c *v1alpha1.DemoAppCluster) { c.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"disk": "ssd"} })
				w.pass()
				w.ready("web-a", "web-b")
				w.pass()
				before := w.all()
				begin := w.clock.Now().Sub(began)
				w.take()

				take(w)
				result := w.after(begin + 2*time.Second)
				expect.Equal(t, "first pending removal", "web-a", w.pendingNames()[0])
				expect.Contains(t, "message", w.messageOf(), "kept in case the node comes back: web-a until 2026-01-02T03:09:")
				expect.Equal(t, "conditions", allReady(), w.conditions())
				if result.RequeueAfter < 4*time.Minute || result.RequeueAfter > 5*time.Minute {
					t.Errorf("the next pass is after %v", result.RequeueAfter)
				}
				if restarts {
					w.start()
				}
				w.after(begin + 301*time.Second)
				w.node("a", map[string]string{"disk": "ssd", "zone": "a"})
				w.node("b", map[string]string{"disk": "ssd", "zone": "a"})
				w.after(begin + 303*time.Second)
				w.after(begin + 20*time.Minute)

				expect.Equal(t, "apps", before, w.all())
				expect.Equal(t, "pending removals after it is back", []string(nil), w.pendingNames())
				expect.Equal(t, "conditions after it is back", allReady(), w.conditions())
				for request := range w.take() {
					if request != "patch demoappclusters/status" {
						t.Errorf("request: %s", request)
					}
				}
			})
		}
	}
}

func TestAppGoesAfterGracePeriod(t *testing.T) {
	tests := []struct {
		name   string
		change func(*v1alpha1.DemoAppCluster)
		stays  time.Duration
	}{
		{"the default", func(*v1alpha1.DemoAppCluster) {}, 5 * time.Minute},
		{"an hour", grace(time.Hour), time.Hour},
		{"a fraction of a second", grace(1500 * time.Millisecond), 1500 * time.Millisecond},
	}
	for _, test := range tests {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %t", test.name, restarts), func(t *testing.T) {
				w := settled(t, []string{"a", "b"}, test.change)
				w.clock.Step(2*time.Second + 300*time.Millisecond)
				begin := w.clock.Now().Sub(began)
				w.removeNode("a")
				w.after(begin)
				if restarts {
					w.start()
				}

				w.after(begin + test.stays - time.Millisecond)
				expect.Equal(t, "apps before the end", []string{"web-a", "web-b"}, w.names())
				w.after(begin + test.stays + time.Second)
				expect.Equal(t, "apps after the end", []string{"web-b"}, w.names())
				w.after(begin + test.stays + 3*time.Second)
				expect.Equal(t, "pending removals", []string(nil), w.pendingNames())
				expect.Equal(t, "conditions", allReady(), w.conditions())
			})
		}
	}
}

// TestOwnerExcludesNodeAtOnce: a change of nodeSelector is a wish and not an absence, also if a request
// fails or the operator restarts in between.
func TestOwnerExcludesNodeAtOnce(t *testing.T) {
	w := settled(t, []string{"a"})
	w.node("b", map[string]string{"disk": "ssd"})
	w.pass()
	w.removeNode("gone")
	w.change(func(c *v1alpha1.DemoAppCluster) { c.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"disk": "ssd"} })
	w.refuse = func(verb, _ string) error {
		if verb == "delete" {
			return errPlain
		}
		return nil
	}
	w.clock.Step(2 * time.Second)
	w.sync()
	if _, err := w.latePass(); err == nil {
		t.Error("no error after a refused deletion")
	}
	expect.Equal(t, "apps after a failure", []string{"web-a", "web-b"}, w.names())
	w.refuse = nil
	w.start()
	w.pass()
	expect.Equal(t, "apps", []string{"web-b"}, w.names())
	expect.Equal(t, "nodes read from the API server", 0, len(w.nodes.asked))

	w.node("b", nil)
	w.pass()
	w.pass()
	expect.Equal(t, "apps after the label of a node is gone", []string{"web-b"}, w.names())
	w.change(grace(0))
	w.pass()
	expect.Equal(t, "apps after the owner ended the grace period", []string(nil), w.names())
}

// TestStatusOfOlderOperator has no selector. An excluded node may then have lost its label, so the app
// stays for the grace period.
func TestStatusOfOlderOperator(t *testing.T) {
	w := settled(t, []string{"a"})
	cluster := w.stored()
	cluster.Status.NodeSelector = nil
	_, err := w.demo.DemoV1alpha1().DemoAppClusters(namespace).UpdateStatus(t.Context(), cluster, metav1.UpdateOptions{})
	expect.NoError(t, err)
	w.change(func(c *v1alpha1.DemoAppCluster) { c.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"disk": "ssd"} })
	w.pass()
	expect.Equal(t, "pending removals", []string{"web-a"}, w.pendingNames())
}

// TestFailedRemovalKeepsItsTime: an absence whose end was reached does not begin again when the API
// server refuses the deletion.
func TestFailedRemovalKeepsItsTime(t *testing.T) {
	w := settled(t, []string{"a"})
	w.removeNode("a")
	w.pass()
	first := w.stored().Status.PendingRemovals
	w.clock.Step(6 * time.Minute)
	w.refuse = func(verb, _ string) error {
		if verb == "delete" {
			return errPlain
		}
		return nil
	}
	w.sync()
	if _, err := w.latePass(); err == nil {
		t.Error("no error after a refused deletion")
	}
	expect.Equal(t, "pending removals", first, w.stored().Status.PendingRemovals)
	w.refuse = nil
	w.pass()
	expect.Equal(t, "apps", []string(nil), w.names())
}

// TestLateNodeCache: the cache does not show that the node is back, as after an outage of the API
// server that was longer than the grace period.
func TestLateNodeCache(t *testing.T) {
	w := settled(t, []string{"a"})
	w.removeNode("a")
	w.pass()
	w.nodes.unseen = map[string]*metav1.PartialObjectMetadata{"a": {ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	w.clock.Step(10 * time.Minute)
	w.sync()
	if _, err := w.latePass(); !controller.IsPending(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "apps", []string{"web-a"}, w.names())
	w.node("a", nil)
	w.pass()
	expect.Equal(t, "conditions", allReady(), w.conditions())
	expect.Equal(t, "pending removals", []string(nil), w.pendingNames())
}

func TestDecideRemovals(t *testing.T) {
	now := began.Add(300 * time.Millisecond)
	app := func(name string) extra {
		return extra{app: &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}
	recorded := func(name string, since time.Duration) v1alpha1.PendingRemoval {
		return v1alpha1.PendingRemoval{
			Name: name, Since: metav1.NewTime(began.Add(since)), Until: metav1.NewTime(began.Add(since + time.Minute)),
		}
	}
	unwanted, leaving := app("a"), app("a")
	unwanted.unwanted, leaving.leaving = true, true
	type removals = []v1alpha1.PendingRemoval
	tests := []struct {
		name     string
		app      extra
		recorded removals
		grace    time.Duration
		now      int
		pending  removals
	}{
		{"new absence", app("a"), nil, time.Minute, 0, removals{recorded("a", time.Second)}},
		{"earlier absence", app("a"), removals{recorded("a", -30*time.Second)}, time.Minute, 0, removals{recorded("a", -30*time.Second)}},
		{"ended absence", app("a"), removals{recorded("a", -time.Minute)}, time.Minute, 1, removals{recorded("a", -time.Minute)}},
		{"longer grace period", app("a"), removals{{Name: "a", Since: metav1.NewTime(began.Add(-50 * time.Second))}}, time.Minute, 0, removals{recorded("a", -50*time.Second)}},
		{"time in the future", app("a"), removals{recorded("a", time.Hour)}, time.Minute, 0, removals{recorded("a", time.Second)}},
		{"absence of another app", app("a"), removals{recorded("b", -time.Hour)}, time.Minute, 0, removals{recorded("a", time.Second)}},
		{"no grace period", app("a"), nil, 0, 1, nil},
		{"unwanted", unwanted, nil, time.Minute, 1, nil},
		{"being deleted", leaving, removals{recorded("a", -30*time.Second)}, time.Minute, 0, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := decideRemovals([]extra{test.app}, test.recorded, test.grace, now)
			expect.Equal(t, "removed now", test.now, len(got.now))
			expect.Equal(t, "pending", test.pending, got.pending)
		})
	}
}

// TestPendingRemovalsAreBounded: an absence that the status cannot record does not begin.
func TestPendingRemovalsAreBounded(t *testing.T) {
	var apps []extra
	for i := range v1alpha1.MaxPendingRemovals + 100 {
		apps = append(apps, extra{app: &v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%04d", i)}}})
	}
	first := decideRemovals(apps, nil, time.Minute, began)
	expect.Equal(t, "recorded", v1alpha1.MaxPendingRemovals, len(first.pending))

	again := decideRemovals(apps, first.pending, time.Minute, began.Add(30*time.Second))
	expect.Equal(t, "recorded later", first.pending, again.pending)

	end := decideRemovals(apps, first.pending, time.Minute, began.Add(time.Minute))
	expect.Equal(t, "removed at the end", v1alpha1.MaxPendingRemovals, len(end.now))

	rest := decideRemovals(apps[v1alpha1.MaxPendingRemovals:], first.pending, time.Minute, began.Add(time.Minute))
	expect.Equal(t, "recorded for the rest", 100, len(rest.pending))
	expect.Equal(t, "removed of the rest", 0, len(rest.now))
}
