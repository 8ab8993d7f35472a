// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// TestPodThatDoesNotStartIsExplained: kinds with a Deployment say which of its pods does not start.
// The pod has the labels of the Deployment, by which the registration of the kind must find it.
func TestPodThatDoesNotStartIsExplained(t *testing.T) {
	const components = `backend: {image: "a:1", replicas: 1, port: 8080}, frontend: {image: "b:1", replicas: 1, port: 8081}, cache: {enabled: false}`
	tests := []struct{ controller, kind, spec, deployment string }{
		{"website", "Website", `{replicas: 1, image: "nginx:1", html: "<p>"}`, "shop"},
		{"webapp", "WebApp", `{replicas: 1, image: "nginx:1", port: 8080}`, "shop"},
		{"memcachedbackup", "MemcachedBackup", `{size: 1}`, "shop"},
		{"appstack", "AppStack", `{database: {version: "17", storage: 1Gi}, ` + components + `}`, "shop-backend"},
		{
			"ecommerceplatform", "EcommercePlatform",
			`{environment: development, database: {type: postgresql}, monitoring: {enabled: false}, ` + components + `}`, "shop-backend",
		},
	}
	databases := databasev1.SchemeGroupVersion.WithResource("postgresqls")
	registered, err := kinds(t.Context(), parse(t))
	expect.NoError(t, err)
	for _, tt := range tests {
		t.Run(tt.controller, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := slices.IndexFunc(registered, func(kind operator.Kind) bool { return kind.Name == tt.controller })
				server := fakeapi.New(t)
				serve(server, append(registered[i].Resources, databases))
				runKind(t, server, registered[i])
				server.Edit(tt.kind, "ns/shop", "kubectl", func(object *unstructured.Unstructured) {
					set(t, object, "spec", tt.spec)
				})
				wait()
				if server.Object("PostgreSQL", "ns/shop-db") != nil {
					server.EditSubresource("PostgreSQL", "ns/shop-db", "postgresql", "status", func(object *unstructured.Unstructured) {
						set(t, object, "status", `{observedGeneration: 1, conditions: [{type: Ready, status: "True", reason: Healthy}]}`)
					})
					wait()
				}
				labels, _, err := unstructured.NestedStringMap(server.Object("Deployment", "ns/"+tt.deployment).Object, "spec", "template", "metadata", "labels")
				expect.NoError(t, err)

				server.Edit("Pod", "ns/"+tt.deployment+"-1-a", "kubelet", func(object *unstructured.Unstructured) {
					set(t, object, "metadata", `{namespace: ns, name: `+tt.deployment+`-1-a, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, `+
						`name: `+tt.deployment+`-1, uid: set, controller: true}]}`)
					object.SetLabels(labels)
					set(t, object, "status", `{containerStatuses: [{name: web, image: "a:1", state: {waiting: {reason: ErrImagePull}}}]}`)
				})
				wait()

				conditions, _, err := unstructured.NestedSlice(server.Object(tt.kind, "ns/shop").Object, "status", "conditions")
				expect.NoError(t, err)
				i = slices.IndexFunc(conditions, func(condition any) bool { return condition.(map[string]any)["type"] == "Ready" })
				expect.Contains(t, "message of Ready", conditions[i].(map[string]any)["message"].(string),
					"pod "+tt.deployment+`-1-a: container "web": ImagePullBackOff: the image "a:1" cannot be pulled`)
			})
		})
	}
}

// runKind runs a kind against an API server until the test ends.
func runKind(t *testing.T, server *fakeapi.Server, kind operator.Kind) {
	t.Helper()
	config := server.RESTConfig()
	config.Transport = server
	parts, err := newEnvironmentAt(t, config, nil).Build(kind)
	expect.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for _, service := range parts.Services {
		running.Go(func() { _ = service.Run(ctx) })
	}
	for _, controller := range parts.Controllers {
		running.Go(func() { _ = controller.Run(ctx, ctx) })
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// wait gives controllers the time to react.
func wait() {
	<-time.After(time.Minute)
	synctest.Wait()
}

// set sets a field of an object to a value in YAML.
func set(t *testing.T, object *unstructured.Unstructured, field, text string) {
	t.Helper()
	value := map[string]any{}
	expect.NoError(t, yaml.Unmarshal([]byte(text), &value))
	object.Object[field] = value
}
