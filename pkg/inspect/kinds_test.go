// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

var operatorLease = types.NamespacedName{Namespace: "demoapp-system", Name: "demoapp-controller"}

// clusterOf returns a cluster with these resources and objects.
func clusterOf(t *testing.T, lists []*metav1.APIResourceList, objects ...runtime.Object) *inspect.Cluster {
	t.Helper()
	kube := kubefake.NewClientset(objects...)
	discovery, ok := kube.Discovery().(*fakediscovery.FakeDiscovery)
	if !ok {
		t.Fatal("the clientset has another discovery client")
	}
	discovery.Resources = lists
	return inspect.New(inspect.Clients{Kubernetes: kube, Discovery: discovery}, operatorLease)
}

var served = []*metav1.APIResourceList{
	{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Categories: []string{"all"}}}},
	{GroupVersion: "demo.example.com/v1alpha1", APIResources: []metav1.APIResource{
		{Name: "demoapps", SingularName: "demoapp", Kind: "DemoApp", ShortNames: []string{"da"}, Namespaced: true, Categories: []string{apimeta.Category}},
		{Name: "demoapps/status", Kind: "DemoApp", Namespaced: true},
	}},
	{GroupVersion: "a.example.com/v1", APIResources: []metav1.APIResource{
		{Name: "webs", SingularName: "web", Kind: "Web", Namespaced: true, Categories: []string{apimeta.Category}},
	}},
	{GroupVersion: "b.example.com/v1", APIResources: []metav1.APIResource{{Name: "webs", SingularName: "web", Kind: "Web", Namespaced: true}}},
}

func leaseWith(report string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: operatorLease.Namespace, Name: operatorLease.Name, Annotations: map[string]string{apimeta.AnnotationReport: report},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("one"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: time.Unix(100, 0)},
		},
	}
}

func TestKinds(t *testing.T) {
	tests := []struct {
		name    string
		objects []runtime.Object
		want    []string
	}{
		{"category", nil, []string{"Web.a.example.com", "DemoApp.demo.example.com"}},
		{
			"category and report",
			[]runtime.Object{leaseWith(`{"version":"v1","resources":["webs.b.example.com"]}`)},
			[]string{"Web.a.example.com", "Web.b.example.com", "DemoApp.demo.example.com"},
		},
		{
			"category and kinds of a chart in the report",
			[]runtime.Object{leaseWith(`{"version":"v1","kinds":["Gone.b.example.com","Web.b.example.com"]}`)},
			[]string{"Web.a.example.com", "Web.b.example.com", "DemoApp.demo.example.com"},
		},
		{"report that is no JSON", []runtime.Object{leaseWith("{")}, []string{"Web.a.example.com", "DemoApp.demo.example.com"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kinds, err := clusterOf(t, served, tt.objects...).Kinds(t.Context())

			expect.NoError(t, err)
			var got []string
			for _, kind := range kinds {
				got = append(got, kind.GroupKind().String())
			}
			expect.Equal(t, "kinds", tt.want, got)
		})
	}
}

func TestKind(t *testing.T) {
	both := leaseWith(`{"resources":["webs.b.example.com"]}`)
	tests := []struct {
		word, want, wantErr string
	}{
		{word: "da", want: "DemoApp.demo.example.com"},
		{word: "DemoApp", want: "DemoApp.demo.example.com"},
		{word: "demoapps.demo.example.com", want: "DemoApp.demo.example.com"},
		{word: "demoapps.v1alpha1.demo.example.com", want: "DemoApp.demo.example.com"},
		{word: "webs.b.example.com", want: "Web.b.example.com"},
		{word: "web", wantErr: `kind "web" is ambiguous; write webs.a.example.com or webs.b.example.com`},
		{word: "demoap", wantErr: `no kind "demoap"; did you mean "demoapp"?`},
		{word: "deployment", wantErr: `no kind "deployment"; the kinds are web, web, demoapp`},
	}
	for _, tt := range tests {
		t.Run(tt.word, func(t *testing.T) {
			kind, err := clusterOf(t, served, both).Kind(t.Context(), tt.word)

			if tt.wantErr != "" {
				expect.Equal(t, "error", tt.wantErr, err.Error())
				return
			}
			expect.NoError(t, err)
			expect.Equal(t, "kind", tt.want, kind.GroupKind().String())
		})
	}
}

// TestKindWithoutPermissionForReport: most users of one namespace may not read the Lease.
func TestKindWithoutPermissionForReport(t *testing.T) {
	kube := kubefake.NewClientset()
	kube.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, operatorLease.Name, errors.New("no role"))
	})
	discovery, _ := kube.Discovery().(*fakediscovery.FakeDiscovery)
	discovery.Resources = served
	cluster := inspect.New(inspect.Clients{Kubernetes: kube, Discovery: discovery}, operatorLease)

	kind, err := cluster.Kind(t.Context(), "webs.b.example.com")
	expect.NoError(t, err)
	expect.Equal(t, "kind", "Web.b.example.com", kind.GroupKind().String())
	_, err = cluster.Kind(t.Context(), "deployment")
	expect.Contains(t, "error", fmt.Sprint(err), `no kind "deployment"`)
}

func TestUnknownKindWithoutCRDs(t *testing.T) {
	_, err := clusterOf(t, served[:1]).Kind(t.Context(), "demoapp")

	var unknown *inspect.UnknownKindError
	if !errors.As(err, &unknown) {
		t.Fatalf("error is %v", err)
	}
	expect.Equal(t, "error", `no kind "demoapp": the API server serves no kind of the category demoapp-controller, and the operator reports none on its Lease `+
		"(--operator-namespace and --operator-lease name it); install the CRDs", err.Error())
}

func TestRunning(t *testing.T) {
	report, err := clusterOf(t, served, leaseWith(`{"version":"v1"}`)).Report(t.Context())

	expect.NoError(t, err)
	expect.Equal(t, "version", "v1", report.Version)
	expect.Equal(t, "running before the lease expires", true, report.Running(time.Unix(114, 0)))
	expect.Equal(t, "running after the lease has expired", false, report.Running(time.Unix(116, 0)))
}
