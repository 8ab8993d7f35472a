// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

const (
	// shardCount is the number of shards, and sharedNamespaces that of the namespaces with a DemoApp.
	shardCount       = 6
	sharedNamespaces = 18
)

// grantShards grants the Leases of the shards to the operator.
func grantShards(t *testing.T) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "shards", Namespace: cluster.OperatorNamespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "update"}}},
	}
	for shard := range shardCount {
		role.Rules[0].ResourceNames = append(role.Rules[0].ResourceNames, fmt.Sprintf("%s-shard-%d", cluster.LeaseName, shard))
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: cluster.OperatorNamespace, Name: cluster.OperatorServiceAccount}},
	}
	rbac := shared.Client.RbacV1()
	if _, err := rbac.Roles(role.Namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.RoleBindings(role.Namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := rbac.RoleBindings(role.Namespace).Delete(ctx, role.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := rbac.Roles(role.Namespace).Delete(ctx, role.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// heldShards returns how many shards an operator works on, by its metrics.
func heldShards(ctx context.Context, operator *cluster.Operator) (int, error) {
	metrics, err := operator.Metrics(ctx)
	held := 0
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "controller_shard_held{") && strings.HasSuffix(line, " 1\n") {
			held++
		}
	}
	return held, err
}

// sharedLoad changes one DemoApp after another.
type sharedLoad struct {
	t          *testing.T
	namespaces []*apps.Namespace
	changes    int
}

// until changes DemoApps until the operators hold these numbers of shards. It returns the time that
// this took.
func (l *sharedLoad) until(what string, want map[*cluster.Operator]int) time.Duration {
	l.t.Helper()
	begin := time.Now()
	cluster.Eventually(l.t.Context(), l.t, what, func(ctx context.Context) (bool, error) {
		l.change()
		for operator, shards := range want {
			if held, err := heldShards(ctx, operator); err != nil || held != shards {
				return false, err
			}
		}
		return true, nil
	})
	took := time.Since(begin)
	l.t.Logf("%s: %.1f s, %d changes so far", what, took.Seconds(), l.changes)
	return took
}

func (l *sharedLoad) change() {
	l.t.Helper()
	ns := l.namespaces[l.changes%len(l.namespaces)]
	l.changes++
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = fmt.Sprint(l.changes) })
}

// assertOneWriter asserts that no two operators wrote one object at a time: the first write of an
// operator came after the answers to all earlier writes of others. It returns the number of objects
// that several operators wrote.
func assertOneWriter(t *testing.T, operators map[string]*cluster.Operator) (handedOver int) {
	t.Helper()
	type write struct {
		cluster.AuditEvent

		by string
	}
	byObject := map[string][]write{}
	for _, name := range slices.Sorted(maps.Keys(operators)) {
		for _, request := range writes(t, operators[name]) {
			if request.Resource == "events" || request.Verb == "create" {
				continue // Creations and events name no object in their URI.
			}
			object := strings.Join([]string{request.Resource, request.Namespace, request.Name}, "/")
			byObject[object] = append(byObject[object], write{request, name})
		}
	}
	for object, all := range byObject {
		slices.SortFunc(all, func(a, b write) int { return a.Received.Compare(b.Received) })
		several := false
		for i := 1; i < len(all); i++ {
			for _, before := range all[:i] {
				if before.by == all[i].by {
					continue
				}
				several = true
				if before.Completed.After(all[i].Received) {
					t.Errorf("two at work on %s: %s and %s:\n%s", object, before.by, all[i].by,
						apps.Describe([]cluster.AuditEvent{before.AuditEvent, all[i].AuditEvent}))
				}
			}
		}
		if several {
			handedOver++
		}
	}
	return handedOver
}

// TestReplicasShareWork changes the number of replicas under load: one takes over from a process
// without shards, two join, one is killed, one joins, and one is terminated.
func TestReplicasShareWork(t *testing.T) {
	load := &sharedLoad{t: t}
	for range sharedNamespaces {
		ns := apps.NewExclusive(t, shared)
		ns.Create(apps.WithoutPods("web"))
		load.namespaces = append(load.namespaces, ns)
	}
	args := append([]string{fmt.Sprintf("--shards=%d", shardCount)}, cluster.ShortLease...)
	start := func() *cluster.Operator { return cluster.StartOperator(t.Context(), t, shared, args...) }

	alone := cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
	cluster.AwaitLead(t, alone)
	grantShards(t)
	a := start()
	if held, err := heldShards(t.Context(), a); err != nil || held > 0 {
		t.Errorf("beside a process without shards, a replica holds %d shards (%v)", held, err)
	}
	alone.StopOrderly(t)
	load.until("the first replica holds all shards", map[*cluster.Operator]int{a: 6})
	b, c := start(), start()
	load.until("two replicas joined", map[*cluster.Operator]int{a: 2, b: 2, c: 2})
	c.Kill()
	killed := load.until("one was killed", map[*cluster.Operator]int{a: 3, b: 3})
	d := start()
	load.until("one joined", map[*cluster.Operator]int{a: 2, b: 2, d: 2})
	b.StopOrderly(t)
	load.until("one was terminated", map[*cluster.Operator]int{a: 3, d: 3})

	assertWithin(t, "SIGKILL to balanced shards", killed, 10*time.Second)
	for _, ns := range load.namespaces {
		ns.Await("web", "settled", func(app *v1alpha1.DemoApp) bool {
			return app.Status.ObservedGeneration == app.Generation && apps.IsReady(app)
		})
	}
	handedOver := assertOneWriter(t, map[string]*cluster.Operator{"alone": alone, "a": a, "b": b, "c": c, "d": d})
	t.Logf("%d objects had several writers, one after another", handedOver)
	if handedOver == 0 {
		t.Error("no object was handed over")
	}
}
