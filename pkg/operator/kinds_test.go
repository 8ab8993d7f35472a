// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/example/demoapp-controller/pkg/served"
)

// The test kinds. The children of a DemoAppCluster are DemoApps.
var (
	apps     = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}
	clusters = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoappclusters"}
)

func twoKinds() []Kind {
	return []Kind{
		{Name: "demoapp", Resources: []schema.GroupVersionResource{apps}},
		{Name: "demoappcluster", Resources: []schema.GroupVersionResource{clusters, apps}},
	}
}

// newTestQueue returns a queue of twoKinds, whose resources are served. The operator has all
// permissions.
func newTestQueue(ask watchable, namespaces ...string) (*kindQueue, *processMetrics) {
	metrics := newMetrics()
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return newKindQueue(twoKinds(), namespaces, unrestricted(ask), newDefinitions(newCRDs()), "h", metrics.kinds), metrics
}

// unrestricted are the answers of an API server that serves the resources of twoKinds and allows
// all.
func unrestricted(ask watchable) questions {
	return questions{
		discover: func(context.Context) (served.Snapshot, error) { return serves(apps, clusters, served.Definitions), nil },
		access: grants(func(string) []authorizationv1.ResourceRule {
			return []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
		}),
		watchable: ask,
	}
}

// serves returns the discovery result of an API server with these resources.
func serves(resources ...schema.GroupVersionResource) served.Snapshot {
	var lists []*metav1.APIResourceList
	for _, resource := range resources {
		lists = append(lists, &metav1.APIResourceList{
			GroupVersion: resource.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: resource.Resource, Namespaced: true}},
		})
	}
	return served.NewSnapshot(lists...)
}

// grants are the answers of an API server whose authorizer can list all rules.
func grants(rules func(namespace string) []authorizationv1.ResourceRule) access {
	return access{rules: func(_ context.Context, namespace string) (authorizationv1.SubjectRulesReviewStatus, error) {
		return authorizationv1.SubjectRulesReviewStatus{ResourceRules: rules(namespace)}, nil
	}}
}

func names(kinds []Kind) string {
	var all []string
	for _, kind := range kinds {
		all = append(all, kind.Name)
	}
	return strings.Join(all, ",")
}

// logged returns a context with a logger, and a function that returns the logged values of a key.
func logged(t *testing.T) (ctx context.Context, values func(key string) []string) {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	logs, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatal("the logger does not buffer")
	}
	return klog.NewContext(t.Context(), logger), func(key string) []string {
		var found []string
		for _, entry := range logs.GetBuffer().Data() {
			if at := slices.Index(entry.ParameterKVList, any(key)); at >= 0 {
				found = append(found, fmt.Sprint(entry.ParameterKVList[at+1]))
			}
		}
		return found
	}
}

// growing is an API server that serves and allows more resources as time passes. It counts the
// discoveries.
type growing struct {
	start time.Time
	// served and allowed are the times from which each resource is served and may be watched.
	served, allowed map[string]time.Duration
	// removed is the time of the removal of the demoapps. Before, their requests fail with failure.
	removed time.Duration
	failure error
	blind   bool
	rounds  int
	refused int
}

// questions are those that the API server answers.
func (g *growing) questions() questions {
	return questions{discover: g.discover, access: grants(g.rules), watchable: g.ask}
}

func (g *growing) discover(context.Context) (served.Snapshot, error) {
	g.rounds++
	resources := []schema.GroupVersionResource{served.Definitions}
	for _, resource := range []schema.GroupVersionResource{apps, clusters} {
		if passed := time.Since(g.start); passed >= g.served[resource.Resource] || passed < g.removed && resource == apps {
			resources = append(resources, resource)
		}
	}
	return serves(resources...), nil
}

func (g *growing) rules(string) []authorizationv1.ResourceRule {
	var rules []authorizationv1.ResourceRule
	allow := func(resource schema.GroupVersionResource) {
		rules = append(rules, authorizationv1.ResourceRule{
			Verbs: []string{"list", "watch"}, APIGroups: []string{resource.Group}, Resources: []string{resource.Resource},
		})
	}
	for _, resource := range []schema.GroupVersionResource{apps, clusters} {
		if time.Since(g.start) >= g.allowed[resource.Resource] {
			allow(resource)
		}
	}
	if !g.blind {
		allow(served.Definitions)
	}
	return rules
}

// ask is only called for resources that are served and allowed.
func (g *growing) ask(_ context.Context, resource schema.GroupVersionResource, _ string) error {
	passed := time.Since(g.start)
	switch {
	case passed < g.removed && resource == apps:
		return g.failure
	case passed < g.allowed[resource.Resource], passed < g.served[resource.Resource]:
		g.refused++
	}
	return nil
}

// applyCRDs applies each CRD when its resource is served, and earlier by lead.
func (g *growing) applyCRDs(ctx context.Context, t *testing.T, client dynamic.Interface, lead time.Duration) {
	t.Helper()
	for _, resource := range []schema.GroupVersionResource{apps, clusters} {
		from := g.served[resource.Resource]
		if from == 0 {
			applyCRD(ctx, t, client, resource)
			continue
		}
		go func() {
			select {
			case <-time.After(from - lead):
				applyCRD(ctx, t, client, resource)
			case <-ctx.Done():
			}
		}()
	}
}

func TestKindsWait(t *testing.T) {
	const (
		never = 1000 * time.Hour
	)
	tests := []struct {
		name            string
		served, allowed map[string]time.Duration
		// lead is the time by which a CRD is established before its resource is served.
		lead time.Duration
		// failure is the first answer for the demoapps, before they are absent.
		failure error
		// blind means that CRDs may not be watched.
		blind bool
		// from is the earliest start of each kind, and late is the maximum delay of the start.
		from map[string]time.Duration
		late time.Duration
		// said are the logged kinds that are not installed or wait for permissions, in order.
		// because are the logged permissions.
		said, because []string
		// atMost is the maximum number of discovery requests.
		atMost int
	}{
		{name: "served", from: map[string]time.Duration{"demoapp": 0, "demoappcluster": 0}, atMost: 1},
		{
			name:   "both served at the same time",
			served: map[string]time.Duration{"demoapps": 2 * time.Second, "demoappclusters": 2 * time.Second},
			from:   map[string]time.Duration{"demoapp": 2 * time.Second, "demoappcluster": 2 * time.Second},
			late:   0, said: []string{"demoapp, demoappcluster"}, atMost: 3,
		},
		{
			name:   "one after the other",
			served: map[string]time.Duration{"demoapps": time.Minute, "demoappclusters": time.Hour},
			from:   map[string]time.Duration{"demoapp": time.Minute, "demoappcluster": time.Hour},
			late:   0, said: []string{"demoapp, demoappcluster"}, atMost: 5,
		},
		{
			name:   "CRD of the child last",
			served: map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Minute},
			from:   map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late:   0, said: []string{"demoapp, demoappcluster"}, atMost: 5,
		},
		{
			name:   "served later than the CRD is established",
			served: map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour}, lead: 5 * time.Second,
			from: map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late: 5 * time.Second, said: []string{"demoapp, demoappcluster"}, atMost: 12,
		},
		{
			name:   "CRDs cannot be watched",
			served: map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour}, blind: true,
			from: map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late: 5 * time.Minute, said: []string{"demoapp, demoappcluster"}, atMost: 35,
		},
		{
			name:    "fails once while the CRD is removed",
			served:  map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour},
			failure: apierrors.NewInternalError(errors.New("the storage is being removed")),
			from:    map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late:    0, said: []string{"demoapp, demoappcluster"}, atMost: 4,
		},
		{
			name:    "forbidden once while the permission is applied",
			served:  map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour},
			failure: apierrors.NewForbidden(apps.GroupResource(), "", errors.New("RBAC")),
			from:    map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late:    0, said: []string{"demoapp, demoappcluster"}, atMost: 4,
		},
		{
			name:   "one kind runs while the other waits",
			served: map[string]time.Duration{"demoappclusters": never},
			from:   map[string]time.Duration{"demoapp": 0, "demoappcluster": never},
			said:   []string{"demoappcluster"}, atMost: 2,
		},
		{
			name:    "permission after the CRD",
			served:  map[string]time.Duration{"demoapps": 0, "demoappclusters": 0},
			allowed: map[string]time.Duration{"demoapps": 0, "demoappclusters": time.Minute},
			from:    map[string]time.Duration{"demoapp": 0, "demoappcluster": time.Minute},
			late:    30 * time.Second,
			said:    []string{"demoappcluster"}, because: []string{"demoappclusters.demo.example.com/v1alpha1 is forbidden, grant list and watch"}, atMost: 14,
		},
		{
			name:    "permission comes much later than the CRD",
			allowed: map[string]time.Duration{"demoapps": time.Hour, "demoappclusters": time.Hour},
			from:    map[string]time.Duration{"demoapp": time.Hour, "demoappcluster": time.Hour},
			late:    5 * time.Minute,
			said:    []string{"demoapp, demoappcluster"}, because: []string{"demoappclusters.demo.example.com/v1alpha1 is forbidden, grant list and watch; " +
				"demoapps.demo.example.com/v1alpha1 is forbidden, grant list and watch"},
			atMost: 35,
		},
		{
			name:    "permission comes earlier than the CRD",
			served:  map[string]time.Duration{"demoappclusters": 2 * time.Minute},
			allowed: map[string]time.Duration{"demoappclusters": time.Minute},
			from:    map[string]time.Duration{"demoapp": 0, "demoappcluster": 2 * time.Minute},
			late:    0,
			said:    []string{"demoappcluster"}, atMost: 3,
		},
		{
			name:    "permission comes a moment after the CRD",
			served:  map[string]time.Duration{"demoapps": 30 * time.Minute, "demoappclusters": 30 * time.Minute},
			allowed: map[string]time.Duration{"demoapps": 31 * time.Minute, "demoappclusters": 31 * time.Minute},
			from:    map[string]time.Duration{"demoapp": 31 * time.Minute, "demoappcluster": 31 * time.Minute},
			late:    30 * time.Second,
			said:    []string{"demoapp, demoappcluster", "demoapp, demoappcluster"}, because: []string{"demoappclusters.demo.example.com/v1alpha1 is forbidden, grant list and watch; " +
				"demoapps.demo.example.com/v1alpha1 is forbidden, grant list and watch"},
			atMost: 17,
		},
		{
			name:    "forbidden and without a CRD",
			served:  map[string]time.Duration{"demoapps": never, "demoappclusters": never},
			allowed: map[string]time.Duration{"demoapps": never, "demoappclusters": never},
			from:    map[string]time.Duration{"demoapp": never, "demoappcluster": never},
			said:    []string{"demoapp, demoappcluster"},
			atMost:  3,
		},
		{
			name:    "never allowed",
			allowed: map[string]time.Duration{"demoappclusters": never},
			from:    map[string]time.Duration{"demoapp": 0, "demoappcluster": never},
			said:    []string{"demoappcluster"}, because: []string{"demoappclusters.demo.example.com/v1alpha1 is forbidden, grant list and watch"},
			atMost: 35,
		},
		{
			name:   "stopped while waiting",
			served: map[string]time.Duration{"demoapps": never, "demoappclusters": never},
			from:   map[string]time.Duration{"demoapp": never, "demoappcluster": never},
			said:   []string{"demoapp, demoappcluster"}, atMost: 2,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs, said := logged(t)
				ctx, cancel := context.WithTimeout(logs, time.Hour+6*time.Minute)
				defer cancel()
				api := &growing{
					start: time.Now(), served: test.served, allowed: test.allowed, failure: test.failure, blind: test.blind,
				}
				if test.failure != nil {
					api.removed = kindRetry / 2
				}
				queue, metrics := newTestQueue(nil)
				queue.ask = api.questions()
				crds := newCRDs()
				queue.crds = newDefinitions(crds)
				if test.blind {
					refuseCRDs(crds)
				}
				api.applyCRDs(ctx, t, crds, test.lead)
				started := map[string]time.Duration{"demoapp": never, "demoappcluster": never}
				start := func(kind Kind) error {
					started[kind.Name] = time.Since(api.start)
					return nil
				}

				startable, err := queue.preflight(ctx)
				for _, kind := range startable {
					_ = start(kind)
				}
				err = errors.Join(err, queue.run(ctx, start))
				if err != nil {
					t.Errorf("error = %v", err)
				}
				_, body := get(t, metricsHandler(metrics.registry), "/metrics")
				for kind, from := range test.from {
					if got := started[kind]; got < from || got > from+test.late {
						t.Errorf("%s started after %v, want %v to %v", kind, got, from, from+test.late)
					}
					forbidden := from == never && test.served[kind+"s"] != never
					gauge := fmt.Sprintf("\ncontroller_kind_waiting{kind=%q} %d\n", kind, map[bool]int{true: 1}[forbidden])
					if !strings.Contains(body, gauge) {
						t.Errorf("/metrics lacks %s", gauge)
					}
				}
				if api.rounds > test.atMost {
					t.Errorf("%d discoveries, want at most %d", api.rounds, test.atMost)
				}
				if api.refused > 0 {
					t.Errorf("the API server refused %d requests", api.refused)
				}
				if got := said("kinds"); !slices.Equal(got, test.said) {
					t.Errorf("logged kinds %q, want %q", got, test.said)
				}
				if got := said("because"); !slices.Equal(got, test.because) {
					t.Errorf("logged %q, want %q", got, test.because)
				}
			})
		})
	}
}

// TestWaitingKindRetriesWithoutAPIServer checks a waiting kind while the API server does not
// answer. The process keeps running, with few requests and log lines. The kind starts when the API
// server answers again.
func TestWaitingKindRetriesWithoutAPIServer(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	failures := map[string]error{
		"refuses connections": refused,
		"hangs":               context.DeadlineExceeded,
		"fails":               apierrors.NewInternalError(errors.New("conversion webhook")),
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs, said := logged(t)
				begin, asked := time.Now(), 0
				queue, _ := newTestQueue(func(context.Context, schema.GroupVersionResource, string) error {
					asked++
					if time.Since(begin) < time.Hour {
						return failure
					}
					return nil
				})
				var started []Kind

				err := queue.run(logs, func(kind Kind) error {
					started = append(started, kind)
					return nil
				})

				if err != nil || names(started) != "demoapp,demoappcluster" {
					t.Errorf("error = %v, started %q", err, names(started))
				}
				if took := time.Since(begin); took > time.Hour+15*time.Second {
					t.Errorf("took %v", took)
				}
				if most := 2 * 370; asked > most {
					t.Errorf("%d checks, want at most %d", asked, most)
				}
				if lines := len(said("resource")) + len(said("because")); lines > 2 {
					t.Errorf("the log has %d lines", lines)
				}
			})
		})
	}
}

func TestKindStartError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no chart")
		queue, _ := newTestQueue(func(context.Context, schema.GroupVersionResource, string) error { return nil })
		if err := queue.run(t.Context(), func(Kind) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("run() = %v, want %v", err, failure)
		}
	})
}

func TestKindWaitsForEachNamespace(t *testing.T) {
	queue, _ := newTestQueue(func(_ context.Context, resource schema.GroupVersionResource, namespace string) error {
		if resource == clusters && namespace == "b" {
			return apierrors.NewForbidden(resource.GroupResource(), "", errors.New("RBAC"))
		}
		return nil
	}, "a", "b")

	startable, err := queue.preflight(t.Context())

	if err != nil || names(startable) != "demoapp" {
		t.Errorf("preflight() = %q, %v, want demoapp", names(startable), err)
	}
}

// TestKindWaitsForClusterResources: with some namespaces, a kind waits for the cluster-scoped
// resources that it needs, without a refused request. With all namespaces, it does not need them
// from its start.
func TestKindWaitsForClusterResources(t *testing.T) {
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	kinds := twoKinds()
	kinds[1].ClusterResources = []schema.GroupVersionResource{nodes}
	tests := map[string]struct {
		namespaces []string
		startable  string
		asked      []string
	}{
		"some namespaces": {[]string{"a", "b"}, "demoapp", []string{"demoapps a", "demoapps b"}},
		"all namespaces":  {[]string{metav1.NamespaceAll}, "demoapp,demoappcluster", []string{"demoapps ", "demoappclusters "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var asked []string
			ask := unrestricted(func(_ context.Context, resource schema.GroupVersionResource, namespace string) error {
				asked = append(asked, resource.Resource+" "+namespace)
				return nil
			})
			ask.discover = func(context.Context) (served.Snapshot, error) { return serves(apps, clusters, nodes), nil }
			ask.access = grants(func(string) []authorizationv1.ResourceRule {
				return []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{apps.Group}, Resources: []string{"*"}}}
			})
			queue := newKindQueue(kinds, test.namespaces, ask, newDefinitions(newCRDs()), "h", newKindMetrics())

			startable, err := queue.preflight(t.Context())

			if err != nil || names(startable) != test.startable || !slices.Equal(asked, test.asked) {
				t.Errorf("preflight() = %q, %v after %q, want %q after %q", names(startable), err, asked, test.startable, test.asked)
			}
		})
	}
}

// TestOptionalPartsStartAfterTheirKind: a part also waits for the resources of its kind, so that
// its Build runs after the Build of the kind.
func TestOptionalPartsStartAfterTheirKind(t *testing.T) {
	database, backup := schema.GroupVersionResource{Resource: "databases"}, schema.GroupVersionResource{Resource: "backups"}
	kinds := []Kind{
		{Name: "database", Resources: []schema.GroupVersionResource{database}, Optional: []Kind{
			{Name: "backup", Resources: []schema.GroupVersionResource{backup}},
		}},
		{Name: "backup", Resources: []schema.GroupVersionResource{backup}},
	}

	got := withOptional(kinds)

	want := map[string][]schema.GroupVersionResource{"database": {database}, "database/backup": {database, backup}, "backup": {backup}}
	var names []string
	for _, kind := range got {
		names = append(names, kind.Name)
		if !slices.Equal(kind.Resources, want[kind.Name]) {
			t.Errorf("%s waits for %v, want %v", kind.Name, kind.Resources, want[kind.Name])
		}
	}
	if !slices.Equal(names, []string{"database", "database/backup", "backup"}) {
		t.Errorf("kinds are %q, in this order", names)
	}
}
