// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// idleTime is how long an idle operator is watched.
const idleTime = time.Minute

// idleApps is how many DemoApps there are to leave alone.
const idleApps = 500

// mostToStart is how many requests an operator may send to know all there is: to list, to watch and to discover. It is
// far from one for each DemoApp.
const mostToStart = 40

func TestNothingToDo(t *testing.T) {
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared)
	names := make([]string, 0, idleApps+1)
	for i := range idleApps {
		app := apps.Named(fmt.Sprintf("web-%d", i))
		// Pods are none of the operator's business, and take most of the time.
		app.Spec.ReplicaCount = ptr.To[int32](0)
		ns.Create(app)
		names = append(names, app.Name)
	}
	awaitReady(ns, names, 1)
	ns.Create(apps.Waiting("waiting", "nobody"))
	ns.Await("waiting", "waits", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, v1alpha1.ConditionDependencyReady, metav1.ConditionFalse, v1alpha1.ReasonWaiting)
	})
	names = append(names, "waiting")
	awaitQuiet(t)
	before := versions(ns, names)

	t.Run("after a restart", func(t *testing.T) {
		operator.Stop()
		begin := time.Now()
		awaitLead(t, cluster.StartOperator(t.Context(), t, shared))
		awaitQuiet(t)
		requests := assertNoWork(t, begin)
		t.Logf("%d requests to start", requests)
		if requests > mostToStart {
			t.Errorf("%d requests to start, at most %d are allowed", requests, mostToStart)
		}
		if after := versions(ns, names); !slices.Equal(before, after) {
			t.Errorf("DemoApps were written:\nbefore %v\nafter  %v", before, after)
		}
	})
	t.Run("for a minute", func(t *testing.T) {
		awaitLead(t, cluster.StartOperator(t.Context(), t, shared))
		awaitQuiet(t)
		begin := time.Now()
		<-time.After(idleTime)
		requests := assertNoWork(t, begin)
		t.Logf("%d requests in %s, all for the lease or to watch", requests, idleTime)
		if after := versions(ns, names); !slices.Equal(before, after) {
			t.Errorf("DemoApps were written:\nbefore %v\nafter  %v", before, after)
		}
	})
}

// TestPeriodicLooks has every DemoApp looked at again and again, the healthy and the waiting.
func TestPeriodicLooks(t *testing.T) {
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared, "--resync-period=1s")
	awaitLead(t, operator)
	healthy := apps.Named("healthy")
	healthy.Spec.ReplicaCount = ptr.To[int32](0)
	ns.Create(healthy)
	ns.AwaitReady("healthy")
	ns.Create(apps.Waiting("waiting", "nobody"))
	ns.Await("waiting", "waits", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, v1alpha1.ConditionDependencyReady, metav1.ConditionFalse, v1alpha1.ReasonWaiting)
	})
	awaitQuiet(t)
	begin, names := time.Now(), []string{"healthy", "waiting"}
	before, looked := versions(ns, names), looks(t.Context(), t, operator)
	const each = 5
	cluster.Eventually(t.Context(), t, "some looks at each", func(ctx context.Context) (bool, error) {
		return looks(ctx, t, operator) >= looked+each*len(names), nil
	})
	assertNoWork(t, begin)
	if after := versions(ns, names); !slices.Equal(before, after) {
		t.Errorf("DemoApps were written:\nbefore %v\nafter  %v", before, after)
	}
}

// looks returns how often the operator has looked at DemoApps.
func looks(ctx context.Context, t *testing.T, operator *cluster.Operator) int {
	t.Helper()
	text, err := operator.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, `controller_reconcile_total{controller="demoapp",result="success"} `)
		if !ok {
			continue
		}
		count, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	return 0
}

// TestAllRequestsOfAnInstall counts what no namespace tells of, too: an operation discovers nothing, and lists nothing.
func TestAllRequestsOfAnInstall(t *testing.T) {
	ns := newNamespace(t)
	awaitLead(t, cluster.StartOperator(t.Context(), t, shared))
	still := func(name string) *v1alpha1.DemoApp {
		app := apps.Named(name)
		app.Spec.ReplicaCount = ptr.To[int32](0)
		return app
	}
	ns.Create(still("first")) // With it, the kinds of the chart begin to be watched.
	ns.AwaitReady("first")
	awaitQuiet(t)
	for _, operation := range []struct {
		what string
		most int
		do   func()
	}{
		{"an install", 10, func() { ns.Create(still("web")); ns.AwaitReady("web") }},
		{"an upgrade of two objects", 2 + 6, func() {
			generation := ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Counted" }).Generation
			ns.Await("web", "upgraded", func(app *v1alpha1.DemoApp) bool {
				return app.Status.ObservedGeneration == generation && apps.IsReady(app)
			})
		}},
		{"an uninstall", 4 + 8, func() { ns.Delete("web"); ns.AwaitGone("web") }},
	} {
		begin := time.Now()
		operation.do()
		awaitQuiet(t)
		requests, err := shared.AuditRequests(begin, cluster.ByOperator())
		if err != nil {
			t.Fatal(err)
		}
		requests = slices.DeleteFunc(requests, func(request cluster.AuditEvent) bool {
			return request.Verb == "watch" || request.Resource == "leases"
		})
		t.Logf("%s: %d requests, at most %d", operation.what, len(requests), operation.most)
		if len(requests) > operation.most {
			t.Errorf("%s took %d requests, at most %d are allowed:\n%s", operation.what, len(requests), operation.most, apps.Describe(requests))
		}
	}
}

// TestDriftOfAllObjectsAtOnce: the repair of four objects takes a request for each, and three that tell of it. After a
// restart, the release's record has to be read for it.
func TestDriftOfAllObjectsAtOnce(t *testing.T) {
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared)
	app := apps.Named("web")
	app.Spec.ReplicaCount = ptr.To[int32](0)
	ns.Create(app)
	ns.AwaitReady("web")
	suspend := func(suspended bool) func() {
		return func() { ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Suspend = suspended }) }
	}
	for _, test := range []struct {
		what       string
		pause, end func()
		value      string
		most       int
	}{
		{"after a suspension", suspend(true), suspend(false), "one", 4 + 3},
		{
			"after a restart", func() { operator.Stop() },
			func() { cluster.StartOperator(t.Context(), t, shared) }, "two", 4 + 3 + 1,
		},
	} {
		awaitQuiet(t)
		test.pause()
		for resource, change := range map[schema.GroupVersionResource]string{
			{Group: "apps", Version: "v1", Resource: "deployments"}: `{"metadata": {"labels": {"app.kubernetes.io/name": %q}}}`,
			{Version: "v1", Resource: "services"}:                   `{"metadata": {"labels": {"app.kubernetes.io/name": %q}}}`,
			{Version: "v1", Resource: "configmaps"}:                 `{"data": {"index.html": %q}}`,
			{Version: "v1", Resource: "secrets"}:                    `{"stringData": {"apiKey": %q}}`,
		} {
			_, err := shared.Dynamic.Resource(resource).Namespace(ns.Name).Patch(t.Context(), "web", types.MergePatchType,
				fmt.Appendf(nil, change, test.value), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		awaitQuiet(t)
		before, begin := len(ns.Versions("web")), time.Now()
		test.end()
		cluster.Eventually(t.Context(), t, "corrected "+test.what, func(context.Context) (bool, error) {
			seen := ns.Versions("web")
			now := seen[len(seen)-1].App
			return apps.IsReady(now) && apps.IsAbsent(now, v1alpha1.ConditionDrifted) &&
				slices.ContainsFunc(seen[before:], func(version apps.Version) bool {
					return !apps.IsAbsent(version.App, v1alpha1.ConditionDrifted)
				}), nil
		})
		awaitQuiet(t)
		requests, err := shared.AuditRequests(begin, work)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d requests, at most %d", test.what, len(requests), test.most)
		if len(requests) > test.most {
			t.Errorf("%s: %d requests, at most %d are allowed:\n%s", test.what, len(requests), test.most, apps.Describe(requests))
		}
	}
}

// versions returns the resourceVersions of DemoApps.
func versions(ns *apps.Namespace, names []string) []string {
	var versions []string
	for _, name := range names {
		all := ns.Versions(name)
		versions = append(versions, all[len(all)-1].App.ResourceVersion)
	}
	return versions
}

// awaitQuiet waits until the operator has done all that there was to do.
func awaitQuiet(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.DefaultTimeout)
	defer cancel()
	if err := shared.AwaitAuditQuiet(ctx, 3*time.Second, work); err != nil {
		t.Fatal(err)
	}
}

// assertNoWork holds that the operator only kept its lease and its watches since then, and returns how many requests
// that took.
func assertNoWork(t *testing.T, since time.Time) int {
	t.Helper()
	requests, err := shared.AuditRequests(since, cluster.ByOperator())
	if err != nil {
		t.Fatal(err)
	}
	worked := slices.DeleteFunc(slices.Clone(requests), func(request cluster.AuditEvent) bool { return !work(request) })
	if len(worked) > 0 {
		t.Errorf("the operator asked for something:\n%s", apps.Describe(worked))
	}
	return len(requests)
}

// work selects the operator's requests but for those that any start or standstill takes: watches, also those that begin
// with a list, the lease, and discovery, which is about no resource.
func work(request cluster.AuditEvent) bool {
	return cluster.ByOperator()(request) &&
		request.Verb != "watch" && request.Verb != "list" && request.Resource != "leases" && request.Resource != ""
}
