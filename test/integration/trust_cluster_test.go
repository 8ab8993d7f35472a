// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestClusterOfTenantStaysInItsNamespace lets a tenant create DemoAppClusters and no other kind of
// the API group. Another namespace has DemoApps with the labels and names of the tenant's children.
func TestClusterOfTenantStaysInItsNamespace(t *testing.T) {
	t.Parallel()
	p := newPool(t, "a", "b")
	tenant := p.AddTenant("demoappclusters")
	p.clusters = tenant.Demo.DemoAppClusters(p.Name)
	others := newNamespace(t)
	p.create()
	p.awaitReady(2)
	names := []string{p.app("a"), p.app("b")}
	before := map[string]types.UID{}
	for _, node := range []string{"a", "b"} {
		app := apps.WithoutPods(p.app(node))
		app.Labels = map[string]string{
			v1alpha1.LabelCluster: "web", v1alpha1.LabelNode: p.node(node), v1alpha1.LabelTemplateHash: "outdated",
		}
		before[app.Name] = others.Create(app).UID
		others.AwaitReady(app.Name)
	}
	contents := others.Contents()
	others.AwaitQuiet(quiet)
	begin := time.Now()

	p.change(func(spec *v1alpha1.DemoAppClusterSpec) {
		spec.Template.Spec.Message = "two"
		spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{
			v1alpha1.LabelCluster: "another", v1alpha1.LabelNode: "another",
		}
	})
	p.awaitReady(2)
	if err := p.clusters.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p.AwaitGone(name)
	}
	p.AwaitQuiet(quiet)

	if requests := others.Requests(begin); len(requests) > 0 {
		t.Errorf("the operator sent requests to the other namespace:\n%s", apps.Describe(requests))
	}
	assertSameContents(t, contents, others.Contents())
	for _, name := range names {
		app, err := others.Demo.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || app.UID != before[name] || app.Generation != 1 || app.DeletionTimestamp != nil {
			t.Errorf("DemoApp %s of the other namespace was touched: %+v (%v)", name, app, err)
		}
	}
}
