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

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// idle returns the number of DemoApps at rest, which is high enough to reveal a request for each of
// them, and how long the operator is observed. Both are smaller in short tests.
func idle() (count int, observed time.Duration) {
	if testing.Short() {
		return 80, 10 * time.Second
	}
	return 500, time.Minute
}

// mostToStart bounds the requests of a start, which lists, watches and discovers: 45 when this was
// written. One further request for each DemoApp is beyond the bound.
const mostToStart = 100

// TestIdleOperatorSendsNothing installs many DemoApps, and observes the operator for a while.
func TestIdleOperatorSendsNothing(t *testing.T) {
	idleApps, idleTime := idle()
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	names := make([]string, 0, idleApps+1)
	for i := range idleApps {
		app := apps.WithoutPods(fmt.Sprintf("web-%d", i))
		ns.Create(app)
		names = append(names, app.Name)
	}
	ns.AwaitAll(names, 1)
	createWaiting(ns)
	names = append(names, "waiting")
	apps.AwaitNoWork(t, shared)
	before := versions(ns, names)

	t.Run("after a restart", func(t *testing.T) {
		operator.Stop()
		begin := time.Now()
		cluster.AwaitLead(t, cluster.StartOperator(t.Context(), t, shared))
		apps.AwaitNoWork(t, shared)
		requests := assertNoWork(t, begin)
		t.Logf("%d requests to start", requests)
		if requests > mostToStart {
			t.Errorf("%d requests to start, at most %d are allowed", requests, mostToStart)
		}
		if after := versions(ns, names); !slices.Equal(before, after) {
			t.Errorf("DemoApps were written:\nbefore %v\nafter  %v", before, after)
		}
	})
	t.Run("for a while", func(t *testing.T) {
		cluster.AwaitLead(t, cluster.StartOperator(t.Context(), t, shared))
		apps.AwaitNoWork(t, shared)
		begin := time.Now()
		<-time.After(idleTime)
		requests := assertNoWork(t, begin)
		t.Logf("%d requests in %s, all for the lease or to watch", requests, idleTime)
		if after := versions(ns, names); !slices.Equal(before, after) {
			t.Errorf("DemoApps were written:\nbefore %v\nafter  %v", before, after)
		}
	})
}

// TestPeriodicResyncWritesNothing reconciles a healthy and a waiting DemoApp repeatedly.
func TestPeriodicResyncWritesNothing(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared, "--resync-period=1s")
	cluster.AwaitLead(t, operator)
	ns.Create(apps.WithoutPods("healthy"))
	ns.AwaitReady("healthy")
	createWaiting(ns)
	apps.AwaitNoWork(t, shared)
	begin, names := time.Now(), []string{"healthy", "waiting"}
	before, looked := versions(ns, names), reconciles(t.Context(), t, operator)
	const each = 5
	cluster.Eventually(t.Context(), t, "several reconciles of each", func(ctx context.Context) (bool, error) {
		return reconciles(ctx, t, operator) >= looked+each*len(names), nil
	})
	assertNoWork(t, begin)
	if after := versions(ns, names); !slices.Equal(before, after) {
		t.Errorf("DemoApps were written:\nbefore %v\nafter  %v", before, after)
	}
}

// createWaiting creates the DemoApp "waiting", and returns when its status says so.
func createWaiting(ns *apps.Namespace) {
	ns.Create(apps.Waiting("waiting", "missing"))
	ns.Await("waiting", "waits", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, releasev1alpha1.ConditionDependencyReady, metav1.ConditionFalse, releasev1alpha1.ReasonWaiting)
	})
}

// reconciles returns how often the operator has reconciled DemoApps.
func reconciles(ctx context.Context, t *testing.T, operator *cluster.Operator) int {
	t.Helper()
	text, err := operator.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(line, "} ")
		if !ok || !strings.HasPrefix(series, `controller_reconcile_total{controller="demoapp",`) || !strings.HasSuffix(series, `result="success"`) {
			continue
		}
		count, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			t.Fatal(err)
		}
		total += count
	}
	return total
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

// assertNoWork asserts that since then the operator has only renewed its lease and kept its
// watches. It returns the number of requests.
func assertNoWork(t *testing.T, since time.Time) int {
	t.Helper()
	requests, err := shared.AuditRequests(since, cluster.ByOperator())
	if err != nil {
		t.Fatal(err)
	}
	worked := slices.DeleteFunc(slices.Clone(requests), func(request cluster.AuditEvent) bool { return !apps.IsWork(request) })
	if len(worked) > 0 {
		t.Errorf("the operator sent requests:\n%s", apps.Describe(worked))
	}
	return len(requests)
}
