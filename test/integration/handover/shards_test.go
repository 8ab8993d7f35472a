// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"context"
	"fmt"
	"maps"
	"net/http"
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

// sharing is the size of a test of replicas that share the work.
type sharing struct {
	shards, namespaces int
	// apps is the number of DemoApps of each namespace.
	apps int
	// ignoresSelectors makes the API server ignore which shards a replica asks for, like a server
	// without the feature ShardedListAndWatch.
	ignoresSelectors bool
	// lease are the flags of the leader election.
	lease []string
}

// grantShards grants the Leases of shards to the operator.
func grantShards(t *testing.T, shards int) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "shards", Namespace: cluster.OperatorNamespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "update"}}},
	}
	for shard := range shards {
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

// replica is a process that shares the work. A process that ends is started again, as a Deployment
// does: on a busy machine, it may not renew its Leases in time.
type replica struct {
	*cluster.Operator

	start func() *cluster.Operator
	// ended are the processes before the present one.
	ended []*cluster.Operator
}

// restartIfEnded starts the replica again if its process has ended.
func (r *replica) restartIfEnded(t *testing.T) {
	t.Helper()
	select {
	case <-r.Exited():
		t.Logf("process %d has ended and is started again", r.PID())
		r.ended, r.Operator = append(r.ended, r.Operator), r.start()
	default:
	}
}

// stopOrderly stops the replica, unless its process has ended.
func (r *replica) stopOrderly(t *testing.T) {
	t.Helper()
	select {
	case <-r.Exited():
		t.Logf("process %d has ended by itself", r.PID())
	default:
		r.StopOrderly(t)
	}
}

// processesOf returns all processes of replicas, by a name for messages.
func processesOf(replicas map[string]*replica) map[string]*cluster.Operator {
	processes := map[string]*cluster.Operator{}
	for name, r := range replicas {
		for i, process := range append(slices.Clone(r.ended), r.Operator) {
			processes[fmt.Sprintf("%s (process %d)", name, i+1)] = process
		}
	}
	return processes
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
	// names are the names of the DemoApps of each namespace.
	names   []string
	changes int
	// changed is the time of the last change of until.
	changed time.Time
}

// pace is the time between two changes while replicas come and go.
const pace = 100 * time.Millisecond

// until changes DemoApps until the operators hold these numbers of shards. It returns the time that
// this took, and logs the requests that read objects or Leases.
func (l *sharedLoad) until(what string, want map[*replica]int) time.Duration {
	l.t.Helper()
	begin := time.Now()
	cluster.Eventually(l.t.Context(), l.t, what, func(ctx context.Context) (bool, error) {
		if time.Since(l.changed) >= pace {
			l.changed = time.Now()
			l.change()
		}
		for r, shards := range want {
			r.restartIfEnded(l.t)
			if held, err := heldShards(ctx, r.Operator); err != nil || held != shards {
				return false, err
			}
		}
		return true, nil
	})
	took := time.Since(begin)
	l.t.Logf("%s: %.1f s, %d changes so far", what, took.Seconds(), l.changes)
	for r := range want {
		l.t.Logf("%s: requests of process %d: %v", what, r.PID(), requestsOf(l.t, r.Operator, begin))
	}
	return took
}

// requestsOf counts the requests of an operator since begin: lists, watches, requests about Leases
// by verb, and further requests.
func requestsOf(t *testing.T, operator *cluster.Operator, begin time.Time) map[string]int {
	t.Helper()
	requests, err := shared.AuditRequests(begin, cluster.ByProcess(operator))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, request := range requests {
		switch {
		case request.Resource == "leases":
			counts[request.Verb+" Lease"]++
		case request.Verb == "list", request.Verb == "watch":
			counts[request.Verb]++
		default:
			counts["others"]++
		}
	}
	return counts
}

func (l *sharedLoad) change() {
	l.t.Helper()
	ns := l.namespaces[l.changes%len(l.namespaces)]
	name := l.names[l.changes/len(l.namespaces)%len(l.names)]
	l.changes++
	ns.Change(name, func(spec *v1alpha1.DemoAppSpec) { spec.Message = fmt.Sprint(l.changes) })
}

// awaitSettled waits until all DemoApps are ready with their newest spec.
func (l *sharedLoad) awaitSettled() {
	l.t.Helper()
	for _, ns := range l.namespaces {
		for _, name := range l.names {
			ns.Await(name, "settled", func(app *v1alpha1.DemoApp) bool {
				return app.Status.ObservedGeneration == app.Generation && apps.IsReady(app)
			})
		}
	}
}

// measure changes all DemoApps, and logs the cost for each operator. The memory is measured
// afterwards.
func (l *sharedLoad) measure(when string, replicas ...*replica) {
	l.t.Helper()
	l.awaitSettled()
	value := func(r *replica, series string) float64 {
		value, err := r.Metric(l.t.Context(), series)
		if err != nil {
			l.t.Fatal(err)
		}
		return value
	}
	cpu, begin := map[*replica]float64{}, time.Now()
	for _, r := range replicas {
		cpu[r] = value(r, "process_cpu_seconds_total")
	}
	for range len(l.namespaces) * len(l.names) {
		l.change()
	}
	l.awaitSettled()
	took := time.Since(begin)
	for _, r := range replicas {
		held, err := heldShards(l.t.Context(), r.Operator)
		if err != nil {
			l.t.Fatal(err)
		}
		requests := requestsOf(l.t, r.Operator, begin)
		l.t.Logf("%s: process %d with %d shards: %d changes of all replicas in %.1f s, CPU %.2f s, heap %.1f MiB, memory %.1f MiB, requests %v", when,
			r.PID(), held, len(l.namespaces)*len(l.names), took.Seconds(), value(r, "process_cpu_seconds_total")-cpu[r],
			value(r, "go_memstats_heap_alloc_bytes")/(1<<20), value(r, "process_resident_memory_bytes")/(1<<20), requests)
	}
}

// logGaps logs how long nobody worked on the shards that replicas have given back, by their logs.
func logGaps(t *testing.T, operators map[string]*cluster.Operator) {
	t.Helper()
	type event struct {
		at    time.Time
		shard string
		took  bool
	}
	var events []event
	for _, operator := range operators {
		for line := range strings.Lines(operator.Log()) {
			took := strings.Contains(line, `msg="Took a shard"`)
			if !took && !strings.Contains(line, `msg="Drained a shard"`) {
				continue
			}
			at, err := time.Parse("time="+time.RFC3339Nano, strings.Fields(line)[0])
			_, shard, ok := strings.Cut(line, " shard=")
			if err != nil || !ok {
				t.Fatalf("unknown form of line %q: %v", line, err)
			}
			events = append(events, event{at, strings.Fields(shard)[0], took})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	drained, gaps := map[string]time.Time{}, []time.Duration{}
	for _, e := range events {
		if !e.took {
			drained[e.shard] = e.at
		} else if since, ok := drained[e.shard]; ok {
			gaps = append(gaps, e.at.Sub(since))
			delete(drained, e.shard)
		}
	}
	slices.Sort(gaps)
	if len(gaps) > 0 {
		t.Logf("%d shards were drained and taken: gaps of %v (median), %v (longest)", len(gaps), gaps[len(gaps)/2], gaps[len(gaps)-1])
	}
}

// assertOneWriter asserts that no two operators wrote one object at a time: the first write of an
// operator came after the answers to all earlier writes of other operators. It returns the number
// of objects that several operators wrote.
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

// TestReplicasShareWork changes the number of replicas under load, and then the number of shards.
// The long sizes take minutes, because each DemoApp is installed and changed several times. They
// have the default flags of the leader election, for the figures of docs/scale.md.
func TestReplicasShareWork(t *testing.T) {
	size := sharing{shards: 12, namespaces: 60, apps: 10, lease: cluster.DefaultLease}
	if testing.Short() {
		size = sharing{shards: 6, namespaces: 18, apps: 1, lease: cluster.PatientLease}
	}
	t.Run("API server selects objects", func(t *testing.T) { testSharing(t, size) })
	t.Run("API server ignores selectors", func(t *testing.T) {
		if testing.Short() {
			t.Skip("TestSelectionOverTheWire tests both")
		}
		size.ignoresSelectors = true
		testSharing(t, size)
	})
}

// launcher returns a function that starts a replica with a number of shards. A replica without
// shards works on all objects.
func (s sharing) launcher(t *testing.T) func(shards int) *replica {
	t.Helper()
	var launch cluster.Launch
	if s.ignoresSelectors {
		launch.Proxy = shared.NewProxy(t)
		launch.Proxy.Intercept(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
			query := r.URL.Query()
			query.Del("shardSelector")
			r.URL.RawQuery = query.Encode()
			forward.ServeHTTP(w, r)
		})
	}
	return func(shards int) *replica {
		own := launch
		own.Args = s.lease
		if shards > 0 {
			own.Args = append([]string{fmt.Sprintf("--shards=%d", shards)}, s.lease...)
		}
		r := &replica{start: func() *cluster.Operator { return own.Start(t.Context(), t, shared) }}
		r.Operator = r.start().AwaitReady(t.Context(), t)
		return r
	}
}

// testSharing takes over from a process without shards. Then two replicas join, one is paused for
// longer than its Leases last, one joins, one is terminated, and two with another number of shards
// take over. A long test also kills a replica. For the remaining replicas, that is the same as a
// pause.
func testSharing(t *testing.T, size sharing) {
	load, shards := &sharedLoad{t: t}, size.shards
	for i := range size.apps {
		load.names = append(load.names, fmt.Sprint("web-", i))
	}
	for range size.namespaces {
		ns := apps.NewExclusive(t, shared)
		for _, name := range load.names {
			ns.Create(apps.WithoutPods(name))
		}
		load.namespaces = append(load.namespaces, ns)
	}
	start := size.launcher(t)

	alone := start(0)
	cluster.AwaitLead(t, alone.Operator)
	load.awaitSettled()
	measure := load.measure
	if testing.Short() {
		measure = func(string, ...*replica) {}
	}
	measure("without shards", alone)
	grantShards(t, 2*shards)
	a := start(shards)
	if held, err := heldShards(t.Context(), a.Operator); err != nil || held > 0 {
		t.Errorf("beside a process without shards, a replica holds %d shards (%v)", held, err)
	}
	alone.stopOrderly(t)
	load.until("the first replica holds all shards", map[*replica]int{a: shards})
	measure("one replica with all shards", a)
	b, c := start(shards), start(shards)
	load.until("two replicas joined", map[*replica]int{a: shards / 3, b: shards / 3, c: shards / 3})
	measure("three replicas", a, b, c)
	all := map[string]*replica{"alone": alone, "a": a, "b": b, "c": c}
	if !testing.Short() {
		c.Kill()
		killed := load.until("one was killed", map[*replica]int{a: shards / 2, b: shards / 2})
		t.Logf("SIGKILL %.1f s until shards were balanced (goal 20 s)", killed.Seconds())
		c = start(shards)
		load.until("one joined", map[*replica]int{a: shards / 3, b: shards / 3, c: shards / 3})
		all["in place of c"] = c
	}
	b.Pause()
	paused := load.until("one was paused", map[*replica]int{a: shards / 2, c: shards / 2})
	resumed := time.Now()
	b.Resume()
	cluster.Eventually(t.Context(), t, "the resumed replica ends", func(context.Context) (bool, error) {
		select {
		case <-b.Exited():
			return true, nil
		default:
			return false, nil
		}
	})
	d := start(shards)
	load.until("one joined", map[*replica]int{a: shards / 3, c: shards / 3, d: shards / 3})
	d.stopOrderly(t)
	drained := load.until("one was terminated", map[*replica]int{a: shards / 2, c: shards / 2})
	e, f := start(2*shards), start(2*shards)
	a.stopOrderly(t)
	c.stopOrderly(t)
	load.until("the number of shards was doubled", map[*replica]int{e: shards, f: shards})

	t.Logf("until shards were balanced: SIGSTOP %.1f s (goal 20 s), end of a replica %.1f s (2 s)", paused.Seconds(), drained.Seconds())
	load.awaitSettled()
	for _, late := range writes(t, b.Operator) {
		if late.Received.After(resumed) {
			t.Errorf("the paused replica wrote after it was resumed: %s", apps.Describe([]cluster.AuditEvent{late}))
		}
	}
	maps.Copy(all, map[string]*replica{"d": d, "e": e, "f": f})
	processes := processesOf(all)
	logGaps(t, processes)
	handedOver := assertOneWriter(t, processes)
	t.Logf("%d objects had several writers, one after another", handedOver)
	if handedOver == 0 {
		t.Error("no object was handed over")
	}
}
