// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

func TestCreatesAppPerNode(t *testing.T) {
	w := newWorld(t, "node-1", "node-2", "removed-node")
	w.removeNode("removed-node")
	cluster := w.cluster(func(c *v1alpha1.DemoAppCluster) {
		c.Spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{"team": "a", v1alpha1.LabelCluster: "forged"}
		c.Spec.Template.Metadata.Annotations = map[string]v1alpha1.AnnotationValue{"note": "hello"}
	})
	w.pass()
	expect.Equal(t, "requests", map[string]int{"create demoapps": 2, "patch demoappclusters/status": 1}, w.take())
	expect.Equal(t, "apps", []string{"web-node-1", "web-node-2"}, w.names())
	expect.Equal(t, "conditions", reconciling(v1alpha1.ReasonRollingOut), w.conditions())
	expect.Equal(t, "counts", [5]int32{2, 2, 2, 0, 0}, w.counts())
	expect.Contains(t, "message", w.messageOf(), "0 of 2 apps are up to date and ready; waiting for web-node-1 (Progressing), web-node-2 (Progressing)")

	app := w.app("web-node-1")
	expect.Equal(t, "labels", map[string]string{
		"team": "a", v1alpha1.LabelCluster: "web", v1alpha1.LabelNode: "node-1",
		v1alpha1.LabelTemplateHash: templateHash(cluster.Spec.Template),
	}, app.Labels)
	expect.Equal(t, "annotations", map[string]string{"note": "hello"}, app.Annotations)
	expect.Equal(t, "spec", v1alpha1.DemoAppSpec{Message: "one", APIKey: plainKey, NodeName: "node-1"}, app.Spec)
	if !metav1.IsControlledBy(app, cluster) || app.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("owner references: %+v", app.OwnerReferences)
	}

	w.ready("web-node-1", "web-node-2")
	w.pass()
	expect.Equal(t, "requests", map[string]int{"patch demoappclusters/status": 1}, w.take())
	expect.Equal(t, "conditions", allReady(), w.conditions())
	expect.Equal(t, "counts", [5]int32{2, 2, 2, 2, 0}, w.counts())
	expect.Equal(t, "observedGeneration", int64(1), w.stored().Status.ObservedGeneration)
	expect.Equal(t, "events", []string{"Normal AllReady: 2 of 2 apps are up to date and ready"}, w.events)

	if result := w.pass(); result.RequeueAfter < 9*time.Minute {
		t.Errorf("requeued after %v", result.RequeueAfter)
	}
	w.start()
	w.pass()
	expect.Equal(t, "requests when nothing changed", map[string]int{}, w.take())
}

func TestAddedAndRemovedNodes(t *testing.T) {
	w := settled(t, []string{"a", "b"}, grace(0))
	w.node("c", nil)
	w.removeNode("a")
	w.pass()
	// One of the patches confirms the DemoAppCluster, because a missing DemoApp may have been deleted
	// with it.
	expect.Equal(t, "requests", map[string]int{"create demoapps": 1, "delete demoapps": 1, "patch demoappclusters/status": 2}, w.take())
	expect.Equal(t, "apps", []string{"web-b", "web-c"}, w.names())
	expect.Equal(t, "conditions", reconciling(v1alpha1.ReasonRollingOut), w.conditions())
	expect.Equal(t, "counts", [5]int32{2, 2, 2, 1, 0}, w.counts())
	w.ready("web-c")
	w.pass()
	expect.Equal(t, "conditions", allReady(), w.conditions())
}

func TestNodeSelector(t *testing.T) {
	w := newWorld(t, "plain")
	w.node("fast", map[string]string{"disk": "ssd", "zone": "a"})
	w.cluster(func(c *v1alpha1.DemoAppCluster) { c.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"disk": "ssd"} })
	w.pass()
	expect.Equal(t, "apps", []string{"web-fast"}, w.names())

	w.change(func(c *v1alpha1.DemoAppCluster) { c.Spec.NodeSelector["zone"] = "b" })
	w.pass()
	expect.Equal(t, "apps", []string(nil), w.names())
	w.pass()
	expect.Equal(t, "conditions", allReady(), w.conditions())
	expect.Contains(t, "message", w.messageOf(), "No node matches")

	w.change(func(c *v1alpha1.DemoAppCluster) { c.Spec.NodeSelector["not a key"] = "b" })
	w.clock.Step(2 * time.Second)
	w.sync()
	if _, err := w.latePass(); !controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "conditions", stalled(v1alpha1.ReasonValidationFailed), w.conditions())
	expect.Contains(t, "message", w.messageOf(), "spec.nodeSelector", "not a key")
}

func TestStaleCacheSendsNoSecondWrite(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.cluster()
	w.pass()
	w.take()
	for range 3 {
		_, err := w.latePass()
		expect.NoError(t, err)
	}
	expect.Equal(t, "requests after the apps were created", map[string]int{}, w.take())

	w.ready("web-a", "web-b")
	w.pass()
	w.change(withMessage("two"))
	w.pass()
	w.take()
	_, err := w.latePass()
	expect.NoError(t, err)
	expect.Equal(t, "requests after an app was updated", map[string]int{}, w.take())
	expect.Equal(t, "messages", []string{"two", "one"}, []string{w.app("web-a").Spec.Message, w.app("web-b").Spec.Message})

	w.change(grace(0))
	w.removeNode("b")
	w.clock.Step(2 * time.Second)
	w.sync()
	_, err = w.latePass()
	expect.NoError(t, err)
	_, err = w.latePass()
	expect.NoError(t, err)
	expect.Equal(t, "requests after an app was deleted", 1, w.take()["delete demoapps"])
}

func TestRollout(t *testing.T) {
	w := settled(t, []string{"a", "b", "c", "d"}, maxUnavailableOf("2"))
	w.report("web-d")
	w.change(withMessage("two"))
	updated := func() (names []string) {
		for _, app := range w.all() {
			if app.Spec.Message == "two" {
				names = append(names, app.Name)
			}
		}
		return names
	}
	w.pass()
	expect.Equal(t, "updated first, including the app that does not serve", []string{"web-a", "web-d"}, updated())
	expect.Equal(t, "counts", [5]int32{4, 4, 2, 2, 0}, w.counts())
	expect.Contains(t, "message", w.messageOf(), "0 of 4 apps are up to date and ready", "2 wait for their turn")
	w.pass()
	expect.Equal(t, "updated while these are not ready", []string{"web-a", "web-d"}, updated())
	w.ready("web-a")
	w.pass()
	expect.Equal(t, "updated after one is ready", []string{"web-a", "web-b", "web-d"}, updated())
	w.start()
	w.pass()
	expect.Equal(t, "updated after a restart", []string{"web-a", "web-b", "web-d"}, updated())
	w.node("e", nil)
	w.pass()
	expect.Equal(t, "a new node gets its app at once", []string{"web-a", "web-b", "web-d", "web-e"}, updated())
	w.ready("web-d", "web-b")
	w.pass()
	expect.Equal(t, "updated at the end", []string{"web-a", "web-b", "web-c", "web-d", "web-e"}, updated())
	w.ready("web-c", "web-e")
	w.pass()
	expect.Equal(t, "conditions", allReady(), w.conditions())
}

func TestBadTemplateStopsAfterMaxUnavailable(t *testing.T) {
	w := settled(t, []string{"a", "b", "c"})
	w.change(withMessage("bad"))
	w.pass()
	w.stalled("web-a")
	for range 3 {
		w.pass()
	}
	expect.Equal(t, "counts", [5]int32{3, 3, 1, 2, 1}, w.counts())
	expect.Equal(t, "conditions", stalled(v1alpha1.ReasonAppsFailed), w.conditions())
	expect.Contains(t, "message", w.messageOf(), "stalled: web-a (RenderFailed)", "2 wait for their turn")
	expect.Equal(t, "events", 1, len(w.events))

	w.change(withMessage("good"))
	w.pass()
	expect.Equal(t, "message of the stalled app", "good", w.app("web-a").Spec.Message)
	expect.Equal(t, "message of a waiting app", "one", w.app("web-b").Spec.Message)
	expect.Equal(t, "conditions", reconciling(v1alpha1.ReasonRollingOut), w.conditions())
}

func TestHeldAppsAreUpdatedInTurn(t *testing.T) {
	w := settled(t, []string{"a", "b", "c"})
	w.held(w.names()...)
	w.change(withMessage("two"))
	w.pass()
	w.pass()
	updated := 0
	for _, app := range w.all() {
		if app.Spec.Message == "two" {
			updated++
		}
	}
	expect.Equal(t, "updated", 1, updated)
	expect.Contains(t, "message", w.messageOf(), "2 wait for their turn")
	w.held("web-a")
	w.pass()
	expect.Equal(t, "updated while the gate holds the first", []string{"two", "one", "one"},
		[]string{w.app("web-a").Spec.Message, w.app("web-b").Spec.Message, w.app("web-c").Spec.Message})
	w.ready("web-a")
	w.pass()
	expect.Equal(t, "message after the first is ready", "two", w.app("web-b").Spec.Message)
}

func TestTemplateMetadata(t *testing.T) {
	w := settled(t, []string{"a"}, func(c *v1alpha1.DemoAppCluster) {
		c.Spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{"old": "1", "kept": "1"}
	})
	app := w.app("web-a")
	app.Labels["theirs"] = "1"
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).Update(t.Context(), app, metav1.UpdateOptions{FieldManager: "another-client"})
	expect.NoError(t, err)
	w.pass()
	expect.Equal(t, "label of another client", "1", w.app("web-a").Labels["theirs"])

	w.change(func(c *v1alpha1.DemoAppCluster) {
		c.Spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{"kept": "2", "new": "1"}
	})
	w.pass()
	labels := w.app("web-a").Labels
	delete(labels, v1alpha1.LabelTemplateHash)
	expect.Equal(t, "labels", map[string]string{
		"kept": "2", "new": "1", "theirs": "1", v1alpha1.LabelCluster: "web", v1alpha1.LabelNode: "a",
	}, labels)
}

func TestChangedAppIsCorrected(t *testing.T) {
	w := settled(t, []string{"a", "b"})
	app := w.app("web-a")
	app.Spec.Message = "from another client"
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).Update(t.Context(), app, metav1.UpdateOptions{})
	expect.NoError(t, err)
	w.take()
	w.pass()
	expect.Equal(t, "requests", map[string]int{"update demoapps": 1, "patch demoappclusters/status": 1}, w.take())
	expect.Equal(t, "message", "one", w.app("web-a").Spec.Message)
}

func TestDeletedAppIsRecreated(t *testing.T) {
	w := settled(t, []string{"a"})
	app := w.app("web-a")
	app.Finalizers = []string{v1alpha1.Finalizer}
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).Update(t.Context(), app, metav1.UpdateOptions{})
	expect.NoError(t, err)
	expect.NoError(t, w.demo.DemoV1alpha1().DemoApps(namespace).Delete(t.Context(), "web-a", metav1.DeleteOptions{}))
	w.take()
	w.pass()
	expect.Equal(t, "requests while it is being deleted", map[string]int{"patch demoappclusters/status": 1}, w.take())
	expect.Equal(t, "conditions", reconciling(v1alpha1.ReasonRollingOut), w.conditions())
	expect.Equal(t, "counts", [5]int32{1, 0, 0, 0, 0}, w.counts())

	app = w.app("web-a")
	app.Finalizers = nil
	_, err = w.demo.DemoV1alpha1().DemoApps(namespace).Update(t.Context(), app, metav1.UpdateOptions{})
	expect.NoError(t, err)
	w.pass()
	if again := w.app("web-a"); again == nil || again.UID == app.UID {
		t.Errorf("the app is %+v", again)
	}
}

func TestNameConflict(t *testing.T) {
	w := newWorld(t, "a", "b")
	foreign, err := w.demo.DemoV1alpha1().DemoApps(namespace).Create(t.Context(), &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-a"},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	w.cluster()
	w.pass()
	expect.Equal(t, "requests", map[string]int{"create demoapps": 1, "patch demoappclusters/status": 1}, w.take())
	expect.Equal(t, "conditions while the other app starts", reconciling(v1alpha1.ReasonNameConflict), w.conditions())
	w.ready("web-b")
	w.pass()
	expect.Equal(t, "conditions", stalled(v1alpha1.ReasonNameConflict), w.conditions())
	expect.Contains(t, "message", w.messageOf(), "name in use by another owner: web-a")
	expect.Equal(t, "app of another owner", foreign, w.app("web-a"))

	expect.NoError(t, w.demo.DemoV1alpha1().DemoApps(namespace).Delete(t.Context(), "web-a", metav1.DeleteOptions{}))
	w.pass()
	w.ready("web-a")
	w.pass()
	expect.Equal(t, "conditions after its deletion", allReady(), w.conditions())
}

// TestOrphansAreContinued: apps without an owner belong to the DemoAppCluster that their labels name, after
// a deletion with the propagation policy Orphan and after a restore by a backup tool.
func TestOrphansAreContinued(t *testing.T) {
	tests := map[string]struct {
		change func(app *v1alpha1.DemoApp)
		taken  bool
	}{
		"an orphan":                 {func(*v1alpha1.DemoApp) {}, true},
		"labels of another cluster": {func(app *v1alpha1.DemoApp) { app.Labels[v1alpha1.LabelCluster] = "other" }, false},
		"the label of another node": {func(app *v1alpha1.DemoApp) { app.Labels[v1alpha1.LabelNode] = "b" }, false},
		"an owner that is no cluster": {func(app *v1alpha1.DemoApp) {
			app.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x", Controller: ptr.To(true)}}
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := settled(t, []string{"a"})
			app := w.app("web-a")
			app.OwnerReferences = nil
			test.change(app)
			_, err := w.demo.DemoV1alpha1().DemoApps(namespace).Update(t.Context(), app, metav1.UpdateOptions{})
			expect.NoError(t, err)
			expect.NoError(t, w.demo.DemoV1alpha1().DemoAppClusters(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
			cluster := w.cluster()

			w.pass()

			got := w.app("web-a")
			expect.Equal(t, "UID", app.UID, got.UID)
			expect.Equal(t, "controlled", test.taken, metav1.IsControlledBy(got, cluster))
		})
	}
}

func TestNameConflictWithStaleCache(t *testing.T) {
	w := newWorld(t, "a")
	w.cluster()
	w.sync()
	_, err := w.demo.DemoV1alpha1().DemoApps(namespace).Create(t.Context(), &v1alpha1.DemoApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-a"},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	if _, err := w.latePass(); err != nil {
		t.Errorf("error is %v", err)
	}
	w.pass()
	expect.Equal(t, "conditions", stalled(v1alpha1.ReasonNameConflict), w.conditions())
}

func TestWaitsForAppsOfPredecessor(t *testing.T) {
	w := settled(t, []string{"a"})
	expect.NoError(t, w.demo.DemoV1alpha1().DemoAppClusters(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.cluster()
	w.pass()
	expect.Equal(t, "conditions", reconciling(v1alpha1.ReasonRollingOut), w.conditions())
	expect.Equal(t, "requests", map[string]int{"patch demoappclusters/status": 1}, w.take())
}

func TestWriteFailures(t *testing.T) {
	tests := []struct {
		name       string
		err        error
		requests   int
		conditions map[string]string
		terminal   bool
	}{
		{"the API server cannot be reached", errPlain, 3, reconciling(v1alpha1.ReasonRollingOut), false},
		{"a quota", apierrors.NewForbidden(demoApps.GroupResource(), "x", errors.New("exceeded quota, "+plainKey)), 3, reconciling(v1alpha1.ReasonRollingOut), false},
		{"an invalid template", invalid("x"), 3, stalled(apimeta.ReasonRefused), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "a", "b", "c", "d", "e", "f", "g")
			w.cluster()
			w.refuse = func(verb, _ string) error {
				if verb == "create" {
					return test.err
				}
				return nil
			}
			w.sync()
			_, err := w.latePass()
			if !errors.Is(err, test.err) || controller.IsTerminal(err) != test.terminal {
				t.Errorf("error is %v", err)
			}
			expect.Equal(t, "requests", test.requests, w.take()["create demoapps"])
			expect.Equal(t, "conditions", test.conditions, w.conditions())
			expect.Contains(t, "message", w.messageOf(), "create web-a")
			w.refuse = nil
			w.pass()
			expect.Equal(t, "apps in the end", 7, len(w.names()))
		})
	}
}

func TestInvalidAppDoesNotBlockOthers(t *testing.T) {
	w := newWorld(t, "a", "b", "c", "d")
	w.cluster()
	w.refuse = func(verb, name string) error {
		if verb == "create" && name == "web-b" {
			return invalid(name)
		}
		return nil
	}
	w.sync()
	if _, err := w.latePass(); !controller.IsTerminal(err) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "apps", []string{"web-a", "web-c", "web-d"}, w.names())
	expect.Equal(t, "counts", [5]int32{4, 3, 3, 0, 0}, w.counts())
}

func TestRefusedStatusDoesNotShowTheKey(t *testing.T) {
	w := newWorld(t, "a")
	w.cluster()
	w.refuse = func(verb, _ string) error {
		if verb == "patch" {
			return errors.New("admission webhook: " + plainKey + " is not allowed")
		}
		return nil
	}
	w.sync()

	_, err := w.latePass() // It fails the test when the error shows the key.

	expect.Contains(t, "error", fmt.Sprint(err), "admission webhook: REDACTED is not allowed")
}

func TestRequestBudgetOf500Nodes(t *testing.T) {
	const count = 500
	w := newWorld(t)
	w.unguarded = true
	for i := range count {
		w.node(fmt.Sprintf("node-%03d", i), nil)
	}
	w.cluster(maxUnavailableOf("10%"))
	w.pass()
	expect.Equal(t, "requests of the first pass", map[string]int{"create demoapps": count, "patch demoappclusters/status": 1}, w.take())
	_, err := w.latePass()
	expect.NoError(t, err)
	expect.Equal(t, "requests while the cache is stale", map[string]int{}, w.take())

	// The apps become ready within five seconds, in batches of 25, with a pass for each.
	names := w.names()
	statuses := 0
	for i := 0; i < count; i += 25 {
		w.ready(names[i : i+25]...)
		w.sync()
		w.clock.Step(250 * time.Millisecond)
		_, err := w.latePass()
		expect.NoError(t, err)
		for request, times := range w.take() {
			if request != "patch demoappclusters/status" {
				t.Fatalf("%d requests: %s", times, request)
			}
			statuses += times
		}
	}
	if statuses > 6 {
		t.Errorf("the status was written %d times in five seconds", statuses)
	}
	w.pass()
	w.take()
	expect.Equal(t, "conditions", allReady(), w.conditions())

	w.change(withMessage("two"))
	updates := 0
	for range 2 * count / 50 {
		w.pass()
		updates += w.take()["update demoapps"]
		var waiting []string
		for _, app := range w.all() {
			if !isReady(app) {
				waiting = append(waiting, app.Name)
			}
		}
		if len(waiting) > 50 {
			t.Fatalf("%d apps are unavailable", len(waiting))
		}
		w.ready(waiting...)
	}
	w.pass()
	expect.Equal(t, "updates", count, updates)
	expect.Equal(t, "conditions", allReady(), w.conditions())
	if text := w.messageOf(); strings.Contains(text, "wait") {
		t.Error(text)
	}
}
