// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// poolLabel selects the nodes of one test.
const poolLabel = "test.example.com/pool"

// pool is a namespace with nodes of its own, without pods, and one DemoAppCluster on them.
type pool struct {
	*apps.Namespace
	t        *testing.T
	clusters democlient.DemoAppClusterInterface
}

func newPool(t *testing.T, nodes ...string) *pool {
	t.Helper()
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	ns := newNamespace(t)
	p := &pool{Namespace: ns, t: t, clusters: client.DemoV1alpha1().DemoAppClusters(ns.Name)}
	for _, name := range nodes {
		p.addNode(name)
	}
	return p
}

// node returns the name of a node. Nodes are cluster-scoped, so the name begins with the name of
// the namespace.
func (p *pool) node(name string) string { return p.Name + "-" + name }

// addNode creates a node that is cordoned and never ready, so that no pods are scheduled to it.
func (p *pool) addNode(name string) {
	p.t.Helper()
	nodes := shared.Client.CoreV1().Nodes()
	_, err := nodes.Create(p.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: p.node(name), Labels: map[string]string{poolLabel: p.Name}},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{
			{Key: poolLabel, Effect: corev1.TaintEffectNoSchedule},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		err := nodes.Delete(context.WithoutCancel(p.t.Context()), p.node(name), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			p.t.Error(err)
		}
	})
}

func (p *pool) removeNode(name string) {
	p.t.Helper()
	if err := shared.Client.CoreV1().Nodes().Delete(p.t.Context(), p.node(name), metav1.DeleteOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pool) labelNode(name, value string) {
	p.t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, poolLabel, value)
	_, err := shared.Client.CoreV1().Nodes().Patch(p.t.Context(), p.node(name), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
}

// app returns the name of a node's DemoApp.
func (p *pool) app(node string) string {
	p.t.Helper()
	selector := v1alpha1.LabelCluster + "=web," + v1alpha1.LabelNode + "=" + p.node(node)
	list, err := p.Demo.List(p.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(list.Items) != 1 {
		p.t.Fatalf("DemoApps of node %s: %d (%v)", node, len(list.Items), err)
	}
	return list.Items[0].Name
}

// create creates the DemoAppCluster "web", whose DemoApps have no pods.
func (p *pool) create(change ...func(*v1alpha1.DemoAppClusterSpec)) *v1alpha1.DemoAppCluster {
	p.t.Helper()
	web := &v1alpha1.DemoAppCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1alpha1.DemoAppClusterSpec{
			NodeSelector: map[string]v1alpha1.LabelValue{poolLabel: v1alpha1.LabelValue(p.Name)},
			Template: v1alpha1.DemoAppTemplate{Spec: v1alpha1.DemoAppSpec{
				ReplicaCount: ptr.To[int32](0), APIKey: "key-of-web", Message: "one",
			}},
		},
	}
	for _, c := range change {
		c(&web.Spec)
	}
	created, err := p.clusters.Create(p.t.Context(), web, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return created
}

func (p *pool) change(change func(*v1alpha1.DemoAppClusterSpec)) {
	p.t.Helper()
	err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
		web, err := p.clusters.Get(p.t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&web.Spec)
		_, err = p.clusters.Update(p.t.Context(), web, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// await waits until done holds for "web" at its newest generation, and returns the DemoAppCluster.
func (p *pool) await(what string, done func(*v1alpha1.DemoAppCluster) bool) *v1alpha1.DemoAppCluster {
	p.t.Helper()
	var web *v1alpha1.DemoAppCluster
	defer func() {
		if p.t.Failed() && web != nil {
			web.ManagedFields = nil
			if text, err := yaml.Marshal(web); err == nil {
				p.t.Logf("DemoAppCluster:\n%s", text)
			}
		}
	}()
	cluster.Eventually(p.t.Context(), p.t, "DemoAppCluster "+what, func(ctx context.Context) (bool, error) {
		var err error
		web, err = p.clusters.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && web.Status.ObservedGeneration == web.Generation && done(web), err
	})
	return web
}

func (p *pool) awaitReady(count int32) *v1alpha1.DemoAppCluster {
	p.t.Helper()
	return p.await(fmt.Sprintf("ready on %d nodes", count), func(web *v1alpha1.DemoAppCluster) bool {
		s := web.Status
		return isSo(web, apimeta.ConditionReady, v1alpha1.ReasonAllReady) && len(s.Conditions) == 1 &&
			s.Desired == count && s.Current == count && s.Updated == count && s.Ready == count && s.Failed == 0
	})
}

func isSo(web *v1alpha1.DemoAppCluster, conditionType, reason string) bool {
	condition := meta.FindStatusCondition(web.Status.Conditions, conditionType)
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.Reason == reason &&
		condition.ObservedGeneration == web.Generation
}

// TestClusterFollowsItsNodes adds, relabels and removes nodes one after the other, because the
// status must be correct after each change.
func TestClusterFollowsItsNodes(t *testing.T) {
	t.Parallel()
	p := newPool(t, "a", "b.example.com")
	web := p.create()
	p.awaitReady(2)
	for _, node := range []string{"a", "b.example.com"} {
		app := p.AwaitReady(p.app(node))
		if app.Spec.NodeName != p.node(node) || !metav1.IsControlledBy(app, web) || !strings.HasPrefix(app.Name, "web-") {
			t.Errorf("app of %s: %+v", node, app)
		}
	}

	p.addNode("c")
	p.awaitReady(3)
	p.change(func(spec *v1alpha1.DemoAppClusterSpec) { spec.RemovalGracePeriod = &metav1.Duration{} })
	p.await("without a grace period", func(*v1alpha1.DemoAppCluster) bool { return true })
	gone := p.app("a")
	p.removeNode("a")
	p.AwaitGone(gone)
	p.awaitReady(2)
	if records := p.AuditRecords(gone); len(records) != 1 {
		t.Errorf("%d audit records of the app that is gone", len(records))
	}
	unlabeled := p.app("c")
	p.labelNode("c", "another")
	p.AwaitGone(unlabeled)
	p.awaitReady(1)
	p.labelNode("c", p.Name)
	p.awaitReady(2)

	p.Delete(p.app("c"))
	p.await("corrected", func(web *v1alpha1.DemoAppCluster) bool {
		app, err := p.Demo.Get(t.Context(), unlabeled, metav1.GetOptions{})
		return err == nil && app.DeletionTimestamp == nil && isSo(web, apimeta.ConditionReady, v1alpha1.ReasonAllReady)
	})
	p.Change(p.app("c"), func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Changed by another client" })
	p.Await(p.app("c"), "set back", func(app *v1alpha1.DemoApp) bool {
		return app.Spec.Message == "one" && apps.IsReady(app)
	})
	p.awaitReady(2)
	p.AwaitQuiet(quiet)
}

// TestNodesThatComeBack takes each node away for a moment, in several ways. Their DemoApps stay, and
// go after a node that does not come back.
func TestNodesThatComeBack(t *testing.T) {
	t.Parallel()
	p := newPool(t, "deleted", "unlabeled", "stays")
	p.create()
	p.awaitReady(3)
	before := map[string]types.UID{}
	for _, node := range []string{"deleted", "unlabeled", "stays"} {
		app := p.AwaitReady(p.app(node))
		before[app.Name] = app.UID
	}
	begin := time.Now()

	p.removeNode("deleted")
	p.labelNode("unlabeled", "another")
	web := p.await("waits for two nodes", func(web *v1alpha1.DemoAppCluster) bool { return len(web.Status.PendingRemovals) == 2 })
	if !isSo(web, apimeta.ConditionReady, v1alpha1.ReasonAllReady) || web.Status.Desired != 1 {
		t.Errorf("status while two nodes are gone: %+v", web.Status)
	}
	p.addNode("deleted")
	p.labelNode("unlabeled", p.Name)
	p.await("has all nodes again", func(web *v1alpha1.DemoAppCluster) bool { return len(web.Status.PendingRemovals) == 0 })
	p.awaitReady(3)
	for name, uid := range before {
		app, err := p.Demo.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || app.UID != uid || app.Generation != 1 || apps.Revision(app) != 1 {
			t.Errorf("DemoApp %s was touched: %+v (%v)", name, app, err)
		}
	}
	p.AwaitQuiet(quiet)
	p.checkRequests(begin, map[string]int{})

	gone := p.app("deleted")
	p.change(func(spec *v1alpha1.DemoAppClusterSpec) {
		spec.RemovalGracePeriod = &metav1.Duration{Duration: 2 * time.Second}
	})
	p.removeNode("deleted")
	p.AwaitGone(gone)
	p.awaitReady(2)
	p.change(func(spec *v1alpha1.DemoAppClusterSpec) {
		spec.RemovalGracePeriod, spec.NodeSelector["none"] = nil, "such"
	})
	p.awaitReady(0)
}

// TestClusterRollsOutTemplate: the rollout updates the DemoApps one after the other, which takes
// most of the time.
func TestClusterRollsOutTemplate(t *testing.T) {
	t.Parallel()
	const count = 20
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	p := newPool(t, names...)
	maxUnavailable := intstr.FromString("15%") // 3 of 20.
	begin := time.Now()
	p.create(func(spec *v1alpha1.DemoAppClusterSpec) {
		spec.UpdateStrategy.MaxUnavailable = &maxUnavailable
		spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{"old": "1"}
	})
	p.awaitReady(count)
	p.AwaitQuiet(quiet)
	p.checkRequests(begin, map[string]int{"create demoapps": count})

	changed := time.Now()
	p.change(func(spec *v1alpha1.DemoAppClusterSpec) {
		spec.Template.Spec.Message = "two"
		spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{"new": "1"}
	})
	p.awaitReady(count)
	for _, name := range names {
		app := p.AwaitReady(p.app(name))
		if app.Spec.Message != "two" || app.Labels["new"] != "1" || app.Labels["old"] != "" || apps.Revision(app) != 2 {
			t.Errorf("app %s: revision %d, message %q, labels %v", name, apps.Revision(app), app.Spec.Message, app.Labels)
		}
	}
	p.AwaitQuiet(quiet)
	p.checkRequests(changed, map[string]int{"update demoapps": count})
	p.checkUnavailable(names, changed, 3)
}

// checkRequests compares the operator's writes of DemoApps with the budget, and returns the number
// of status updates.
func (p *pool) checkRequests(since time.Time, want map[string]int) {
	p.t.Helper()
	got := map[string]int{}
	for _, request := range p.Requests(since) {
		switch {
		case request.Resource == "demoapps" && request.Subresource == "" && request.Verb != "patch" && request.Code < 400:
			got[request.Verb+" demoapps"]++
		case request.Resource == "demoappclusters":
			got["status"]++
		}
	}
	if limit := int(time.Since(since)/time.Second) + 2; got["status"] > limit {
		p.t.Errorf("%d writes of the status in %v", got["status"], time.Since(since))
	}
	delete(got, "status")
	for request, times := range want {
		if got[request] != times || len(got) != len(want) {
			p.t.Errorf("requests: %v, want %v", got, want)
		}
	}
}

// checkUnavailable replays the versions of the DemoApps, and returns how many were unready at the
// same time.
func (p *pool) checkUnavailable(names []string, since time.Time, most int) {
	p.t.Helper()
	type change struct {
		at    time.Time
		name  string
		ready bool
	}
	var changes []change
	for _, name := range names {
		app := p.app(name)
		for _, version := range p.Versions(app) {
			if version.Seen.After(since) {
				changes = append(changes, change{version.Seen, app, apps.IsReady(version.App)})
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	unavailable := map[string]bool{}
	worst := 0
	for _, c := range changes {
		if delete(unavailable, c.name); !c.ready {
			unavailable[c.name] = true
		}
		worst = max(worst, len(unavailable))
	}
	if worst > most || worst == 0 {
		p.t.Errorf("%d apps were unavailable at the same time", worst)
	}
}

func TestClusterDeletionDeletesDemoApps(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			p := newPool(t, "a", "b")
			p.create()
			p.awaitReady(2)
			names := []string{p.app("a"), p.app("b")}
			if err := p.clusters.Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				p.AwaitGone(name)
				if records := p.AuditRecords(name); len(records) != 1 {
					t.Errorf("%d audit records of %s", len(records), name)
				}
			}
			cluster.Eventually(t.Context(), t, "gone", func(ctx context.Context) (bool, error) {
				_, err := p.clusters.Get(ctx, "web", metav1.GetOptions{})
				return apierrors.IsNotFound(err), err
			})
		})
	}
}

func TestClusterExample(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	if err := shared.ApplyFiles(t.Context(), p.Name, "artifacts/examples/demoappcluster.yaml"); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the example ready", func(ctx context.Context) (bool, error) {
		page, err := p.clusters.Get(ctx, "page", metav1.GetOptions{})
		return err == nil && isSo(page, apimeta.ConditionReady, v1alpha1.ReasonAllReady) && page.Status.Ready > 0, err
	})
}
