// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/scale"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	web := apps.Named("web")
	web.Spec.Message = "Seen in a column"
	ns.Create(web)
	ns.AwaitReady("web")
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	content, err := client.DemoV1alpha1().RESTClient().Get().
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Namespace(ns.Name).Resource("demoapps").Name("web").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(content, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	var columns []string
	shown := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			columns = append(columns, strings.ToUpper(column.Name))
		}
		shown[strings.ToUpper(column.Name)] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	if diff := cmp.Diff([]string{"NAME", "READY", "STATUS", "REPLICAS", "MESSAGE", "REVISION", "URL", "AGE"}, columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	want := map[string]string{
		"NAME": "web", "READY": "True", "STATUS": "Healthy", "REPLICAS": "1", "MESSAGE": "Seen in a column", "REVISION": "1",
		"URL": "http://web." + ns.Name + ".svc", "WHY": "Revision 1 is deployed and healthy",
	}
	delete(shown, "AGE")
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	list, err := shared.Client.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]metav1.APIResource{}
	for _, resource := range list.APIResources {
		found[resource.Name] = resource
	}
	for _, name := range []string{"demoapps", "demoapps/status", "demoapps/scale"} {
		if _, ok := found[name]; !ok {
			t.Errorf("no resource %s", name)
		}
	}
	app := found["demoapps"]
	if !slices.Equal(app.ShortNames, []string{"da"}) {
		t.Errorf("short names %v", app.ShortNames)
	}
	if !slices.Equal(app.Categories, []string{"all", "demo", apimeta.Category}) {
		t.Errorf("categories %v", app.Categories)
	}
}

func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	discoverer, err := discovery.NewDiscoveryClientForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	scales, err := scale.NewForConfig(shared.AdminConfig(), shared.Mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(discoverer))
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupResource{Group: v1alpha1.SchemeGroupVersion.Group, Resource: "demoapps"}
	current, err := scales.Scales(ns.Name).Get(t.Context(), resource, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if current.Spec.Replicas != 1 || current.Status.Replicas != 1 || current.Status.Selector == "" {
		t.Errorf("scale is %+v", current)
	}
	current.Spec.Replicas = 3
	if _, err := scales.Scales(ns.Name).Update(t.Context(), resource, current, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	app := ns.Await("web", "three pods", func(app *v1alpha1.DemoApp) bool {
		return apps.IsReady(app) && app.Status.Replicas == 3 && app.Status.ReadyReplicas == 3
	})
	if apps.Revision(app) != 2 || app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonSpecGenerationChanged {
		t.Errorf("revision %d because of %s", apps.Revision(app), app.Status.LastUpgradeReason)
	}
	if got := *ns.Objects("web").Deployment.Spec.Replicas; got != 3 {
		t.Errorf("the Deployment has %d replicas", got)
	}
}
