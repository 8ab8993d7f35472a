// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/served"
)

var (
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	routes  = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
)

// writer is a kind that watches DemoApps, and writes their status, Secrets and routes.
func writer() Kind {
	rule := func(resource schema.GroupVersionResource, path string, verbs ...string) Rule {
		return Rule{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{resource.Group}, Resources: []string{path}, Verbs: verbs}}
	}
	return Kind{
		Name: "writer", Resources: []schema.GroupVersionResource{apps},
		Rules: func(served.Snapshot) []Rule {
			records := rule(secrets, "secrets", "get")
			records.Namespaces = []string{"records"}
			return []Rule{rule(apps, "demoapps/status", "patch"), rule(secrets, "secrets", "create", "delete"), rule(routes, "httproutes", "patch"), records}
		},
	}
}

func granted(group, resource string, verbs ...string) authorizationv1.ResourceRule {
	return authorizationv1.ResourceRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// TestStartWaitsForPermissions: a process whose role lacks rules of an installed kind is not ready
// and names them in /readyz, in the log and in the metrics. It starts when they are granted.
func TestStartWaitsForPermissions(t *testing.T) {
	own, status := granted(apps.Group, "demoapps", "list", "watch"), granted(apps.Group, "demoapps/status", "*")
	everySecret := granted("", "secrets", "get", "create", "delete")
	tests := []struct {
		name       string
		namespaces []string
		// rules has the rules of each namespace until everything is granted.
		rules   map[string][]authorizationv1.ResourceRule
		missing []string
		metrics []string
	}{
		{
			name: "all namespaces", rules: map[string][]authorizationv1.ResourceRule{noNamespace: {own, everySecret}},
			missing: []string{"patch demoapps.demo.example.com/status in all namespaces"},
			metrics: []string{`{kind="writer",resource="demoapps.demo.example.com/status",resource_namespace="",verb="patch"} 1`},
		},
		{
			name: "a Role does not grant in all namespaces",
			rules: map[string][]authorizationv1.ResourceRule{
				noNamespace: {own, status, granted("", "secrets", "create")}, "records": {everySecret},
			},
			missing: []string{"delete secrets in all namespaces"},
		},
		{
			name: "some namespaces", namespaces: []string{"a", "b"},
			rules: map[string][]authorizationv1.ResourceRule{
				"a": {own, status, everySecret}, "b": {own, granted(apps.Group, "*/status", "patch"), granted("", "configmaps", "*")}, "records": {everySecret},
			},
			missing: []string{"create, delete secrets in namespace b"},
		},
		{
			name: "the namespace of records", namespaces: []string{"a"},
			rules:   map[string][]authorizationv1.ResourceRule{"a": {own, status, everySecret}, "records": {status}},
			missing: []string{"get secrets in namespace records"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs, said := logged(t)
				ctx, cancel := context.WithCancel(logs)
				defer cancel()
				queue, metrics := newTestQueue(func(context.Context, schema.GroupVersionResource, string) error { return nil }, test.namespaces...)
				queue.waiting = []Kind{writer()}
				queue.ask.discover = func(context.Context) (served.Snapshot, error) { return serves(apps, secrets), nil }
				var all atomic.Bool
				var reviews atomic.Int64
				queue.ask.access = grants(func(namespace string) []authorizationv1.ResourceRule {
					reviews.Add(1)
					if all.Load() {
						return []authorizationv1.ResourceRule{granted("*", "*", "*")}
					}
					return test.rules[namespace]
				})
				ready := &readiness{}
				queue.lacking = ready.setMissing
				started := make(chan []Kind)
				go func() {
					startable, err := queue.preflight(ctx)
					if err != nil {
						t.Error(err)
					}
					started <- startable
				}()
				elapse(time.Hour)
				synctest.Wait()

				var problems []string
				for _, missing := range test.missing {
					problems = append(problems, "the role lacks: "+missing)
				}
				if got := ready.problems(); !slices.Equal(got, problems) {
					t.Errorf("problems are %q, want %q", got, problems)
				}
				if got := said("permissions"); !slices.Equal(got, []string{strings.Join(test.missing, "; ")}) {
					t.Errorf("logged %q, want %q once", got, test.missing)
				}
				_, body := get(t, metricsHandler(metrics.registry), "/metrics")
				for _, line := range append(test.metrics, `controller_kind_waiting{kind="writer"} 1`) {
					if !strings.Contains(body, line+"\n") {
						t.Errorf("/metrics lacks %s", line)
					}
				}
				if reviews := reviews.Load(); reviews > 600 {
					t.Errorf("%d reviews in an hour", reviews)
				}

				all.Store(true)
				if startable := <-started; names(startable) != "writer" {
					t.Errorf("started %q", names(startable))
				}
				if got := ready.problems(); !slices.Equal(got, []string{"starting"}) {
					t.Errorf("problems are %q afterwards", got)
				}
				if _, body := get(t, metricsHandler(metrics.registry), "/metrics"); strings.Contains(body, "controller_permission_missing{") {
					t.Errorf("/metrics still has missing permissions:\n%s", body)
				}
			})
		})
	}
}

// TestKindWithoutPermissionsWaits: a CRD without the role of its kind does not prevent the start of
// the process. A kind that is installed later waits for its missing permissions, and the process
// stays ready.
func TestKindWithoutPermissionsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, said := logged(t)
		ctx, cancel := context.WithCancel(logs)
		defer cancel()
		queue, metrics := newTestQueue(func(context.Context, schema.GroupVersionResource, string) error { return nil })
		queue.waiting = []Kind{writer()}
		queue.ask.discover = func(context.Context) (served.Snapshot, error) { return serves(apps, secrets), nil }
		var rules atomic.Pointer[[]authorizationv1.ResourceRule]
		grant := func(all ...authorizationv1.ResourceRule) { rules.Store(&all) }
		secret := granted("", "secrets", "*")
		grant(secret)
		queue.ask.access = grants(func(string) []authorizationv1.ResourceRule { return *rules.Load() })
		ready := &readiness{}
		queue.lacking = ready.setMissing
		startable, err := queue.preflight(ctx)
		if err != nil || len(startable) > 0 {
			t.Fatalf("preflight() = %q, %v", names(startable), err)
		}
		started := 0
		go func() {
			_ = queue.run(ctx, func(Kind) error {
				started++
				return nil
			})
		}()

		read := granted(apps.Group, "demoapps", "list", "watch")
		grant(secret, read)
		elapse(time.Hour)
		synctest.Wait()
		if got := ready.problems(); started > 0 || !slices.Equal(got, []string{"starting"}) || len(queue.missing["writer"]) != 1 {
			t.Errorf("started %d kinds, problems %q, missing %v", started, got, queue.missing)
		}
		if got := said("permissions"); !slices.Equal(got, []string{"patch demoapps.demo.example.com/status in all namespaces"}) {
			t.Errorf("logged %q", got)
		}
		if got := missingIn(t, metrics); !slices.Equal(got, []string{lacksStatus}) {
			t.Errorf("the metrics have %q", got)
		}
		grant(secret, read, granted(apps.Group, "demoapps/status", "patch"))
		elapse(6 * time.Minute)
		synctest.Wait()
		if started != 1 {
			t.Errorf("started %d kinds after the role is complete", started)
		}
		if got := missingIn(t, metrics); len(got) > 0 {
			t.Errorf("the metrics still have %q", got)
		}
	})
}

// lacksStatus is the series of a missing permission of the kind writer.
const lacksStatus = `controller_permission_missing{kind="writer",resource="demoapps.demo.example.com/status",resource_namespace="",verb="patch"} 1`

// missingIn returns the lines of the metrics about missing permissions.
func missingIn(t *testing.T, metrics *processMetrics) []string {
	t.Helper()
	_, body := get(t, metricsHandler(metrics.registry), "/metrics")
	var found []string
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, "controller_permission_missing{") {
			found = append(found, line)
		}
	}
	return found
}

// TestStartingKindWaitsForPermissions: a kind that starts while the process runs, such as a kind of
// watches.yaml, waits for its missing permissions. The log and the metric name them until they are
// granted or the kind is removed.
func TestStartingKindWaitsForPermissions(t *testing.T) {
	const other = `controller_permission_missing{kind="other",resource="secrets",resource_namespace="a",verb="get"} 1`
	for _, granted := range []bool{true, false} {
		t.Run(fmt.Sprintf("granted %t", granted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs, said := logged(t)
				ctx, cancel := context.WithCancel(logs)
				defer cancel()
				metrics := newMetrics()
				metrics.kinds.setMissing("other", []permission{{namespace: "a", resource: secrets.GroupResource(), verb: "get"}})
				ask := unrestricted(nil)
				ask.discover = func(context.Context) (served.Snapshot, error) { return serves(apps, secrets), nil }
				everything := ask.access
				var all atomic.Bool
				var reviews atomic.Int32
				ask.access.rules = func(ctx context.Context, namespace string) (authorizationv1.SubjectRulesReviewStatus, error) {
					reviews.Add(1)
					if all.Load() {
						return everything.rules(ctx, namespace)
					}
					return authorizationv1.SubjectRulesReviewStatus{ResourceRules: []authorizationv1.ResourceRule{{
						Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"secrets"},
					}}}, nil
				}
				ended := make(chan error, 1)
				go func() {
					ended <- permitted(ctx, ask, []string{metav1.NamespaceAll}, metrics.kinds, "writer", writer().Rules)
				}()

				elapse(time.Hour)
				synctest.Wait()
				if got := said("permissions"); !slices.Equal(got, []string{"patch demoapps.demo.example.com/status in all namespaces"}) {
					t.Errorf("logged %q", got)
				}
				if got := missingIn(t, metrics); !slices.Equal(got, []string{other, lacksStatus}) {
					t.Errorf("the metrics have %q", got)
				}
				if reviews.Load() > 60 {
					t.Errorf("%d reviews in an hour", reviews.Load())
				}

				if granted {
					all.Store(true)
				} else {
					cancel()
				}
				if err := <-ended; (err == nil) != granted {
					t.Errorf("permitted() = %v", err)
				}
				if got := missingIn(t, metrics); !slices.Equal(got, []string{other}) {
					t.Errorf("the metrics have %q afterwards", got)
				}
			})
		})
	}
}

// TestIncompleteRulesCauseSingleReviews: if an authorizer cannot list its rules, each permission is
// checked by a single review.
func TestIncompleteRulesCauseSingleReviews(t *testing.T) {
	var asked []string
	r := newReview(access{
		rules: func(context.Context, string) (authorizationv1.SubjectRulesReviewStatus, error) {
			return authorizationv1.SubjectRulesReviewStatus{Incomplete: true, ResourceRules: []authorizationv1.ResourceRule{granted("", "secrets", "get")}}, nil
		},
		allowed: func(_ context.Context, p permission) (bool, error) {
			asked = append(asked, p.verb)
			return p.verb == "create", nil
		},
	})
	rule := Rule{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "delete"}}}

	missing, err := r.missing(t.Context(), needed([]Rule{rule}, serves(secrets), []string{metav1.NamespaceAll}))

	if err != nil || len(missing) != 1 || missing[0].verb != "delete" || !slices.Equal(asked, []string{"create", "delete"}) {
		t.Errorf("missing %v (%v) after questions for %q", missing, err, asked)
	}
}

func TestPermissionGrantedByRule(t *testing.T) {
	named := granted("", "serviceaccounts", "impersonate")
	named.ResourceNames = []string{"deployer"}
	account := permission{resource: schema.GroupResource{Resource: "serviceaccounts"}, verb: "impersonate"}
	deployer := account
	deployer.name = "deployer"
	status := permission{resource: apps.GroupResource(), subresource: "status", verb: "patch"}
	tests := []struct {
		name string
		p    permission
		rule authorizationv1.ResourceRule
		want bool
	}{
		{"the same", status, granted(apps.Group, "demoapps/status", "patch"), true},
		{"all", status, granted("*", "*", "*"), true},
		{"all subresources of a name", status, granted("*", "*/status", "*"), true},
		{"the resource without the subresource", status, granted(apps.Group, "demoapps", "patch"), false},
		{"another verb", status, granted(apps.Group, "demoapps/status", "update"), false},
		{"another group", status, granted("example.com", "demoapps/status", "patch"), false},
		{"one object of all", account, named, false},
		{"one object", deployer, named, true},
		{"all objects for one", deployer, granted("", "serviceaccounts", "impersonate"), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.p.grantedBy(test.rule); got != test.want {
				t.Errorf("grantedBy() = %v, want %v", got, test.want)
			}
		})
	}
}

// TestDescribedPermissionsAreBounded: however many namespaces lack a rule, log, /readyz and metrics
// stay short.
func TestDescribedPermissionsAreBounded(t *testing.T) {
	var all []permission
	for i := range 1000 {
		all = append(all, permission{namespace: fmt.Sprintf("ns-%03d", i), resource: secrets.GroupResource(), verb: "get"})
	}
	metrics := newMetrics()

	metrics.kinds.setMissing("writer", all)
	metrics.kinds.setMissing("other", all)

	lines := described(map[string][]permission{"writer": all})
	if len(lines) != maxDescribed+1 || lines[maxDescribed] != "980 further resources" {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
	if _, body := get(t, metricsHandler(metrics.registry), "/metrics"); strings.Count(body, "\ncontroller_permission_missing{") != maxDescribed {
		t.Errorf("/metrics has more than %d missing permissions", maxDescribed)
	}
}
