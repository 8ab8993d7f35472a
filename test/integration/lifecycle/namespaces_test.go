// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestOnlyTheNamespacesThatAreNamed(t *testing.T) {
	first, second, other := newNamespace(t), newNamespace(t), newNamespace(t)
	begin := time.Now()
	cluster.StartOperator(t.Context(), t, shared, "--namespaces="+first.Name+","+second.Name)
	other.Create(apps.Named("web"))
	for _, ns := range []*apps.Namespace{first, second} {
		ns.Create(apps.Named("web"))
		ns.AwaitReady("web")
		patchConfigMap(t, ns, "web", `{"data": {"index.html": "Somebody else was here"}}`)
		ns.Await("web", "corrected", func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && app.Status.LastUpgradeReason == v1alpha1.UpgradeReasonDriftDetected
		})
		ns.Delete("web")
		ns.AwaitGone("web")
	}
	awaitQuiet(t)
	if app, err := other.Demo.Get(t.Context(), "web", metav1.GetOptions{}); err != nil || len(app.Finalizers) > 0 || len(app.Status.Conditions) > 0 {
		t.Errorf("the other namespace's was touched: %+v (%v)", app, err)
	}
	namespaces := []string{first.Name, second.Name, cluster.OperatorNamespace, apps.AuditNamespace}
	// What the API server serves is told by objects that are in no namespace, and the audit namespace is itself in none.
	clusterScoped := []string{"customresourcedefinitions", "apiservices", "namespaces"}
	requests, err := shared.AuditRequests(begin, func(request cluster.AuditEvent) bool {
		return cluster.ByOperator()(request) && request.Resource != "" &&
			!slices.Contains(namespaces, request.Namespace) && !slices.Contains(clusterScoped, request.Resource)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) > 0 {
		t.Errorf("the operator looked elsewhere:\n%s", apps.Describe(requests))
	}
}
