// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/served"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

var (
	appKind   = schema.GroupVersionKind{Group: "demo.example.com", Version: "v1alpha1", Kind: "DemoApp"}
	cacheKind = schema.GroupVersionKind{Group: "cache.example.com", Version: "v1", Kind: "Cache"}
)

func app(name string) Dependency { return Dependency{appKind, cache.NewObjectName("ns", name)} }

// TestJudge: waits maps each DemoApp to the objects that it waits for. The DemoApps in up are deployed.
func TestJudge(t *testing.T) {
	const waiting, cycle, deployed = releasev1alpha1.ReasonWaiting, releasev1alpha1.ReasonDependencyCycle, releasev1alpha1.ReasonDependencyDeployed
	redis := Dependency{cacheKind, cache.NewObjectName("ns", "redis")}
	away := Dependency{appKind, cache.NewObjectName("other", "b")}
	shared := Dependency{appKind, cache.NewObjectName("platform", "b")}
	tests := []struct {
		name            string
		waits           map[string][]Dependency
		up              string
		reason, message string
	}{
		{"deployed", map[string][]Dependency{"a": {app("b")}, "b": nil}, "b", deployed, `DemoApp "b" is deployed`},
		{"not deployed", map[string][]Dependency{"a": {app("b")}, "b": nil}, "", waiting, `Waiting for DemoApp "b" to be deployed`},
		{"missing", map[string][]Dependency{"a": {app("b")}}, "", waiting, `Waiting for DemoApp "b", which does not exist`},
		{"one of two", map[string][]Dependency{"a": {app("b"), app("c")}, "b": nil}, "b", waiting, `Waiting for DemoApp "c", which does not exist`},
		{"chain with an end", map[string][]Dependency{"a": {app("b")}, "b": {app("c")}, "c": nil}, "c", waiting, `Waiting for DemoApp "b" to be deployed`},
		{"itself", map[string][]Dependency{"a": {app("a")}}, "a", cycle, "waitFor leads back to this DemoApp: a -> a; change waitFor of one of them"},
		{
			"cycle of two",
			map[string][]Dependency{"a": {app("b")}, "b": {app("a")}},
			"b", cycle,
			"waitFor leads back to this DemoApp: a -> b -> a; change waitFor of one of them",
		},
		{
			"shortest cycle",
			map[string][]Dependency{"a": {app("b"), app("c")}, "b": {app("c")}, "c": {app("a")}},
			"b", cycle,
			"waitFor leads back to this DemoApp: a -> c -> a; change waitFor of one of them",
		},
		{
			"cycle of two kinds",
			map[string][]Dependency{"a": {redis}, "redis": {app("a")}},
			"", cycle,
			"waitFor leads back to this DemoApp: a -> Cache redis -> a; change waitFor of one of them",
		},
		{"cycle of others", map[string][]Dependency{"a": {app("b")}, "b": {app("c")}, "c": {app("b")}}, "", waiting, `Waiting for DemoApp "b" to be deployed`},
		{"other that waits for itself", map[string][]Dependency{"a": {app("b")}, "b": {app("b")}}, "b", deployed, `DemoApp "b" is deployed`},
		{
			"other namespace",
			map[string][]Dependency{"a": {away}, "b": nil},
			"b", releasev1alpha1.ReasonDependencyRefused,
			`Cannot wait for DemoApp "b" in namespace "other", because the operator lets nothing outside that namespace wait for its objects`,
		},
		{"shared namespace", map[string][]Dependency{"a": {shared}, "b": nil}, "b", deployed, `DemoApp "b" in namespace "platform" is deployed`},
		{
			"too many",
			map[string][]Dependency{"a": make([]Dependency, 17)},
			"", releasev1alpha1.ReasonDependencyRefused,
			"waitFor names 17 objects; it may name 16",
		},
		{
			"kind that nothing watches",
			map[string][]Dependency{"a": {{schema.GroupVersionKind{Kind: "Job"}, cache.NewObjectName("ns", "b")}}},
			"",
			waiting, `Waiting for Job "b", which this operator does not watch`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := &Dependencies{config: DependenciesConfig{Shared: []string{"platform"}}}
			for _, kind := range []schema.GroupVersionKind{appKind, cacheKind} {
				d.register(kind.GroupKind(), loopKind{readiness: func(name cache.ObjectName) readiness {
					waits, ok := test.waits[name.Name]
					if !ok {
						return readiness{}
					}
					return readiness{exists: true, ready: name.Name == test.up, is: "deployed", awaited: "to be deployed", waitsFor: waits}
				}, hasSynced: func() bool { return true }})
			}

			reason, message, err := d.judge(app("a"), test.waits["a"])

			expect.NoError(t, err)
			expect.Equal(t, "reason", test.reason, reason)
			expect.Equal(t, "message", test.message, message)
		})
	}
}

// TestJudgeWaitsForCache: the status of an object does not change because the operator starts.
func TestJudgeWaitsForCache(t *testing.T) {
	d := &Dependencies{}
	d.register(cacheKind.GroupKind(), loopKind{
		readiness: func(cache.ObjectName) readiness { return readiness{} }, hasSynced: func() bool { return false },
	})
	_, _, err := d.judge(app("a"), []Dependency{{cacheKind, cache.NewObjectName("ns", "redis")}})
	if !controller.IsPending(err) {
		t.Errorf("error is %v", err)
	}
}

func TestSameReadiness(t *testing.T) {
	missing, idle, up := readiness{}, readiness{exists: true}, readiness{exists: true, ready: true}
	leaving := readiness{exists: true, deleting: true}
	tests := []struct {
		name          string
		before, after readiness
		same          bool
	}{
		{"appears", missing, idle, false},
		{"is deleted", idle, missing, false},
		{"becomes deployed", idle, up, false},
		{"is no longer deployed", up, idle, false},
		{"waits for another", idle, readiness{exists: true, waitsFor: []Dependency{app("c")}}, false},
		{"becomes part of a cycle", idle, readiness{exists: true, inCycle: true}, false},
		{"is being deleted", up, readiness{exists: true, ready: true, deleting: true}, false},
		{"is being deleted, never deployed", idle, leaving, false},
		{"is being deleted as before", readiness{exists: true, ready: true, deleting: true}, leaving, true},
		{"is deployed as before", up, up, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { expect.Equal(t, "same", test.same, test.before.same(test.after)) })
	}
}

func TestReadinessOfAnyKind(t *testing.T) {
	tests := []struct {
		name, object string
		ready        bool
		awaited      string
	}{
		{"ready", `{"metadata": {"generation": 2}, "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}}`, true, "to become ready"},
		{"ready for an earlier spec", `{"metadata": {"generation": 2}, "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}}`, false, "to become ready"},
		{"ready for an earlier spec, as the status says", `{"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}}`, false, "to become ready"},
		{"ready without generations", `{"metadata": {"generation": 2}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`, true, "to become ready"},
		{"deployed, not ready", `{"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Deployed", "status": "True"}]}}`, true, "to be deployed"},
		{"never healthy", `{"spec": {"waitForReady": true}, "status": {"conditions": [{"type": "Deployed", "status": "True"}]}}`, false, "to become healthy, because it has waitForReady"},
		{"healthy once", `{"release": {"waitForReady": true}, "status": {"lastGoodRevision": 1, "conditions": [{"type": "Deployed", "status": "True"}]}}`, true, "to be deployed"},
		{"without status", `{"metadata": {}}`, false, "to have the condition Ready or Deployed"},
		{"odd status", `{"status": {"conditions": ["Ready", {"type": 1}]}}`, false, "to have the condition Ready or Deployed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			expect.NoError(t, object.UnmarshalJSON([]byte(`{"apiVersion": "v1", "kind": "Any", `+test.object[1:])))
			found := readinessOfAny(object)
			expect.Equal(t, "ready", test.ready, found.ready)
			expect.Equal(t, "awaited", test.awaited, found.awaited)
		})
	}
}

// TestStepsOfLargeRing counts the objects that a pass looks up, in rings of any size.
func TestStepsOfLargeRing(t *testing.T) {
	for size, found := range map[int]bool{2: true, maxRing: true, maxRing + 1: false, 5000: false} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			lookups, d := 0, &Dependencies{}
			next := func(name string) []Dependency {
				number, err := strconv.Atoi(name)
				expect.NoError(t, err)
				return []Dependency{app(strconv.Itoa((number + 1) % size))}
			}
			d.register(appKind.GroupKind(), loopKind{readiness: func(name cache.ObjectName) readiness {
				lookups++
				return readiness{exists: true, waitsFor: next(name.Name)}
			}})

			cycle := d.findCycle(app("0"), next("0"))

			expect.Equal(t, "found", found, cycle != nil)
			if lookups > maxRing+1 {
				t.Errorf("looked up %d objects, want at most %d", lookups, maxRing+1)
			}
		})
	}
}

// queue records the enqueued keys.
type queue struct {
	mu   sync.Mutex
	keys []string
}

// Enqueue implements controller.Enqueuer.
func (q *queue) Enqueue(key cache.ObjectName, _ controller.Reason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keys = append(q.keys, key.Name)
}

// take returns the keys enqueued since the last call, without repetitions.
func (q *queue) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := slices.Compact(q.keys)
	q.keys = nil
	return taken
}

// kinds are what an API server serves.
type kinds map[schema.GroupVersionKind]served.Resource

// Resource implements served.Kinds.
func (k kinds) Resource(kind schema.GroupVersionKind) (served.Resource, error) {
	if resource, ok := k[kind]; ok {
		return resource, nil
	}
	return served.Resource{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
}

// Subscribe implements served.Kinds.
func (kinds) Subscribe(func()) {}

// TestAnyKindIsWatched waits for objects of kinds without a loop.
func TestAnyKindIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		databases := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "databases"}
		database := Dependency{databases.GroupVersion().WithKind("Database"), cache.NewObjectName("ns", "db")}
		wide := Dependency{databases.GroupVersion().WithKind("Wide"), cache.NewObjectName("ns", "w")}
		missing := Dependency{schema.GroupVersionKind{Version: "v1", Kind: "Missing"}, cache.NewObjectName("ns", "m")}
		server := fakeapi.New(t)
		server.Serve(databases, database.Kind.Kind, true)
		client, err := dynamic.NewForConfigAndClient(server.RESTConfig(), server.HTTPClient())
		expect.NoError(t, err)
		d := NewDependencies(DependenciesConfig{Client: client, Clock: clock.RealClock{}, Kinds: kinds{
			database.Kind: {GroupVersionResource: databases, Namespaced: true},
			wide.Kind:     {GroupVersionResource: databases.GroupVersion().WithResource("wides")},
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		q := &queue{}
		owner := values.Owner{Queue: q, Name: app("a").Name}
		judge := func(all ...Dependency) string {
			t.Helper()
			_, message, err := d.judge(app("a"), all)
			expect.NoError(t, err)
			return message
		}
		settle := func() { time.Sleep(time.Second); synctest.Wait() }

		d.use(owner, []Dependency{database, wide, missing})
		if _, _, err := d.judge(app("a"), []Dependency{database}); !controller.IsPending(err) {
			t.Errorf("error before the first list is %v", err)
		}
		settle()

		expect.Equal(t, "enqueued after the first list", []string{"a"}, q.take())
		expect.Equal(t, "message", `Waiting for Database "db", which does not exist`, judge(database))
		expect.Equal(t, "message about a cluster-scoped kind", `Waiting for Wide "w", whose kind has no namespaces`, judge(wide))
		expect.Equal(t, "message about a kind that is not served", `Waiting for Missing "m", whose kind the API server does not serve`, judge(missing))
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Database", "metadata": map[string]any{"namespace": "ns", "name": "db"},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
		}}
		_, err = client.Resource(databases).Namespace("ns").Create(ctx, object, metav1.CreateOptions{})
		expect.NoError(t, err)
		settle()
		expect.Equal(t, "enqueued by the object", []string{"a"}, q.take())
		expect.Equal(t, "message in the end", `Database "db" is ready`, judge(database))

		d.use(owner, nil)
		settle()
		expect.Equal(t, "watched in the end", 0, len(d.watched))
		cancel()
		expect.NoError(t, <-ended)
	})
}

// TestKindsOfNamespaceAreLimited: a namespace cannot have the operator watch any number of kinds.
func TestKindsOfNamespaceAreLimited(t *testing.T) {
	d := NewDependencies(DependenciesConfig{Kinds: kinds{}, Clock: clock.RealClock{}})
	var many []Dependency
	for i := range maxKinds + 1 {
		many = append(many, Dependency{schema.GroupVersionKind{Group: fmt.Sprint("g", i), Version: "v1", Kind: "K"}, cache.NewObjectName("ns", "x")})
	}
	d.use(values.Owner{Name: app("a").Name}, many)
	expect.Equal(t, "watched kinds", maxKinds, len(d.watched))
	other := Dependency{schema.GroupVersionKind{Group: "other", Version: "v1", Kind: "K"}, cache.NewObjectName("other", "x")}
	d.use(values.Owner{Name: cache.NewObjectName("other", "a")}, []Dependency{other})
	expect.Equal(t, "watched kinds with those of another namespace", maxKinds+1, len(d.watched))
}

func TestDependantsAreEnqueued(t *testing.T) {
	d, q := &Dependencies{}, &queue{}
	owner := values.Owner{Queue: q, Name: cache.NewObjectName("ns", "a")}
	d.use(owner, []Dependency{app("b"), app("c")})
	d.use(owner, []Dependency{app("b")})
	notify := dependants{d, appKind.GroupKind()}
	notify.Enqueue(app("b").Name, controller.DependencyReady)
	notify.Enqueue(app("c").Name, controller.DependencyReady)
	expect.Equal(t, "enqueued", []string{"a"}, q.keys)
	notify.all()
	expect.Equal(t, "enqueued for the kind", []string{"a", "a"}, q.keys)
	d.use(owner, nil)
	notify.all()
	expect.Equal(t, "enqueued in the end", 2, len(q.keys))
	expect.Equal(t, "remembered in the end", 0, len(d.waits)+len(d.waiting)+len(d.needed))
}
