// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// idleTime is how long an idle operator is watched.
const idleTime = time.Minute

// idleApps is how many DemoApps there are to leave alone.
const idleApps = 500

func TestNothingToDo(t *testing.T) {
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared)
	names := make([]string, 0, idleApps)
	for i := range idleApps {
		app := apps.Named(fmt.Sprintf("web-%d", i))
		// Pods are none of the operator's business, and take most of the time.
		app.Spec.ReplicaCount = ptr.To[int32](0)
		ns.Create(app)
		names = append(names, app.Name)
	}
	awaitReady(ns, names, 1)
	awaitQuiet(t)
	before := versions(ns, names)

	t.Run("after a restart", func(t *testing.T) {
		operator.Stop()
		begin := time.Now()
		awaitLead(t, cluster.StartOperator(t.Context(), t, shared))
		awaitQuiet(t)
		assertNoWork(t, begin)
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
