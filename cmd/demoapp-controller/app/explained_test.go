// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
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
				kind, server := serverOf(t, registered, tt.controller, databases)
				runKind(t, server, kind)
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

				expect.Contains(t, "message of Ready", readyMessage(t, server, tt.kind),
					"pod "+tt.deployment+`-1-a: container "web": ImagePullBackOff: the image "a:1" cannot be pulled`)
			})
		})
	}
}

// TestRefusedPodsAreExplained: only events say why a StatefulSet or a Job has no pod.
func TestRefusedPodsAreExplained(t *testing.T) {
	tests := []struct{ controller, kind, spec, workload, name, said string }{
		{"postgresql", "PostgreSQL", `{version: "17", storage: 1Gi, replicas: 1, deletionPolicy: Retain}`, "StatefulSet", "shop", "Create Pod shop-0 in StatefulSet shop failed error: "},
		{
			"ecommerceplatform", "EcommercePlatform",
			`{environment: development, database: {type: mysql}, monitoring: {enabled: false}, backend: {image: "a:1", replicas: 1, port: 8080}, ` +
				`frontend: {image: "b:1", replicas: 1, port: 8081}, cache: {enabled: false}}`,
			"StatefulSet", "shop-db", "Create Pod shop-db-0 in StatefulSet shop-db failed error: ",
		},
		{
			"backup", "Backup",
			`{source: {type: postgresql, connection: {host: db, database: shop, credentialsSecret: keys}}, schedule: "@daily", retention: 30d, ` +
				`destination: {type: s3, bucket: dumps, credentialsSecret: keys}}`,
			"Job", "shop-1", "Error creating: ",
		},
	}
	registered, err := kinds(t.Context(), parse(t))
	expect.NoError(t, err)
	for _, tt := range tests {
		t.Run(tt.controller, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kind, server := serverOf(t, registered, tt.controller, corev1.SchemeGroupVersion.WithResource("events"))
				server.Edit("Secret", "ns/keys", "kubectl", func(object *unstructured.Unstructured) {
					set(t, object, "data", `{username: YQ==, password: YQ==, AWS_ACCESS_KEY_ID: YQ==, AWS_SECRET_ACCESS_KEY: YQ==}`)
				})
				runKind(t, server, kind)
				server.Edit(tt.kind, "ns/shop", "kubectl", func(object *unstructured.Unstructured) { set(t, object, "spec", tt.spec) })
				wait()
				if tt.workload == "Job" {
					cronJob := server.Object("CronJob", "ns/shop-cronjob")
					server.Edit("Job", "ns/"+tt.name, "cronjob-controller", func(object *unstructured.Unstructured) {
						object.SetLabels(map[string]string{backupv1.LabelBackup: "shop"})
						object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cronJob, batchv1.SchemeGroupVersion.WithKind("CronJob"))})
					})
				} else {
					server.EditSubresource(tt.workload, "ns/"+tt.name, "statefulset-controller", "status", func(object *unstructured.Unstructured) {
						set(t, object, "status", fmt.Sprintf(`{observedGeneration: %d, replicas: 0}`, object.GetGeneration()))
					})
				}

				workload := server.Object(tt.workload, "ns/"+tt.name)
				server.Edit("Event", "ns/"+tt.name+".1", "controller", func(object *unstructured.Unstructured) {
					set(t, object, "involvedObject", fmt.Sprintf("{uid: %q}", workload.GetUID()))
					object.Object["reason"] = "FailedCreate"
					object.Object["message"] = tt.said + `pods "` + tt.name + `-a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0`
				})
				wait()

				expect.Contains(t, "message of Ready", readyMessage(t, server, tt.kind),
					": pods is forbidden: exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0; raise the ResourceQuota small")
			})
		})
	}
}

// serverOf returns a kind by name, and an API server with its resources and another one.
func serverOf(t *testing.T, registered []operator.Kind, name string, another schema.GroupVersionResource) (operator.Kind, *fakeapi.Server) {
	t.Helper()
	i := slices.IndexFunc(registered, func(kind operator.Kind) bool { return kind.Name == name })
	server := fakeapi.New(t)
	serve(server, append(registered[i].Resources, another))
	return registered[i], server
}

// readyMessage returns the message of the condition Ready of the object "shop".
func readyMessage(t *testing.T, server *fakeapi.Server, kind string) string {
	t.Helper()
	conditions, _, err := unstructured.NestedSlice(server.Object(kind, "ns/shop").Object, "status", "conditions")
	expect.NoError(t, err)
	i := slices.IndexFunc(conditions, func(condition any) bool { return condition.(map[string]any)["type"] == "Ready" })
	return conditions[i].(map[string]any)["message"].(string)
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
