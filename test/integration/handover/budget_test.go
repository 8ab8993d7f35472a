// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestRequestBudgets also counts requests outside the namespace, because an operation must send no
// discovery and no list. After each operation, the operator must be silent for three seconds.
func TestRequestBudgets(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	cluster.AwaitLead(t, cluster.StartOperator(t.Context(), t, shared))
	ns.Create(apps.WithoutPods("first")) // The first release starts the watches of the chart's kinds.
	ns.AwaitReady("first")
	apps.AwaitNoWork(t, shared)
	all := func(request cluster.AuditEvent) bool {
		return cluster.ByOperator()(request) && request.Verb != "watch" && request.Resource != "leases"
	}
	spendAtMost(t, "an install", 10, all, func() { ns.Create(apps.WithoutPods("web")); ns.AwaitReady("web") })
	spendAtMost(t, "an upgrade of two objects", 2+6, all, func() {
		generation := ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Counted" }).Generation
		ns.Await("web", "upgraded", func(app *v1alpha1.DemoApp) bool {
			return app.Status.ObservedGeneration == generation && apps.IsReady(app)
		})
	})
	spendAtMost(t, "an uninstall", 4+8, all, func() { ns.Delete("web"); ns.AwaitGone("web") })
}

// TestDriftOfAllObjectsAtOnce allows one request for each of four corrected objects, and three
// requests for the report. After a restart, the operator also confirms the DemoApp and reads the
// release record. Before and after each correction, the operator must be silent for three seconds.
func TestDriftOfAllObjectsAtOnce(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	ns.Create(apps.WithoutPods("web"))
	ns.AwaitReady("web")
	suspend := func(suspended bool) {
		ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Suspend = suspended })
	}
	for _, test := range []struct {
		what       string
		pause, end func()
		value      string
		most       int
	}{
		{
			"after a suspension", func() {
				suspend(true)
				ns.Await("web", "suspended", func(app *v1alpha1.DemoApp) bool {
					return apps.Has(app, releasev1alpha1.ConditionSuspended, metav1.ConditionTrue, releasev1alpha1.ReasonSuspendedBySpec)
				})
			},
			func() { suspend(false) }, "one", 4 + 3,
		},
		{
			"after a restart", func() { operator.Stop() },
			func() { cluster.StartOperator(t.Context(), t, shared) }, "two", 4 + 3 + 2,
		},
	} {
		test.pause()
		changeAll(t, ns, "web", test.value)
		apps.AwaitNoWork(t, shared)
		spendAtMost(t, "repair "+test.what, test.most, apps.IsWork, func() {
			before := len(ns.Versions("web"))
			test.end()
			cluster.Eventually(t.Context(), t, "corrected "+test.what, func(context.Context) (bool, error) {
				seen := ns.Versions("web")
				now := seen[len(seen)-1].App
				return apps.IsReady(now) && apps.IsAbsent(now, releasev1alpha1.ConditionDrifted) &&
					slices.ContainsFunc(seen[before:], func(version apps.Version) bool {
						return !apps.IsAbsent(version.App, releasev1alpha1.ConditionDrifted)
					}), nil
			})
		})
	}
}

// changeAll patches one field of each object of a release, like another client.
func changeAll(t *testing.T, ns *apps.Namespace, name, value string) {
	t.Helper()
	for resource, change := range map[schema.GroupVersionResource]string{
		{Group: "apps", Version: "v1", Resource: "deployments"}: `{"metadata": {"labels": {"app.kubernetes.io/name": %q}}}`,
		{Version: "v1", Resource: "services"}:                   `{"metadata": {"labels": {"app.kubernetes.io/name": %q}}}`,
		{Version: "v1", Resource: "configmaps"}:                 `{"data": {"index.html": %q}}`,
		{Version: "v1", Resource: "secrets"}:                    `{"stringData": {"apiKey": %q}}`,
	} {
		_, err := shared.Dynamic.Resource(resource).Namespace(ns.Name).Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, change, value), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// spendAtMost calls do while the operator is silent, and waits until it is silent again. It asserts
// that the operator sent at most `most` requests that filter selects.
func spendAtMost(t *testing.T, what string, most int, filter cluster.AuditFilter, do func()) {
	t.Helper()
	begin := time.Now()
	do()
	apps.AwaitNoWork(t, shared)
	requests, err := shared.AuditRequests(begin, filter)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d requests, at most %d", what, len(requests), most)
	if len(requests) > most {
		t.Errorf("%s took %d requests, at most %d are allowed:\n%s", what, len(requests), most, apps.Describe(requests))
	}
}
