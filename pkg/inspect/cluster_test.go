// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

// TestListEqualsDynamicClient: the objects of a list are those that client-go decodes, with the
// kinds that the API server leaves out of the items, and with integers.
func TestListEqualsDynamicClient(t *testing.T) {
	const page = `{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"7","continue":%q},"items":[
		{"metadata":{"name":"web","labels":{"a":"b"}},"spec":{"replicas":3}},{"kind":"Other","apiVersion":"other/v1","metadata":{"name":"kept"},"spec":{"ratio":0.5}}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		next := "more"
		if r.URL.Query().Get("continue") == next {
			next = ""
		}
		_, _ = fmt.Fprintf(w, page, next)
	}))
	t.Cleanup(server.Close)
	flags := genericclioptions.NewConfigFlags(false)
	flags.APIServer = &server.URL
	cluster, err := inspect.NewCluster(flags, operatorLease)
	expect.NoError(t, err)
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	cluster.Mapper = mapper
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	expect.NoError(t, err)
	want, err := client.Resource(kind.GroupVersion().WithResource("deployments")).Namespace("shop").List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)

	got, err := cluster.List(t.Context(), kind, "shop", "")

	expect.NoError(t, err)
	expect.Equal(t, "objects of two pages", 2*len(want.Items), len(got))
	for i, object := range got {
		expect.Equal(t, "object", want.Items[i%len(want.Items)].Object, object.Object)
	}
}
