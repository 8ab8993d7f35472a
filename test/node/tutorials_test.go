// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// playsOfTutorials are what readers of tutorials type, by the object, in the namespace of the object. The objects are Ready before.
var playsOfTutorials = map[string]func(t *testing.T, namespace string){
	"DemoApp/app-a": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://app-a", "I am app A - the dependency")
	},
	"DemoApp/app-b": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://app-b", "I am app B - waits for A")
		condition := run(t, namespace, "get", "demoapp", "app-b", `--output=jsonpath={.status.conditions[?(@.type=="DependencyReady")].status}`)
		expect.Equal(t, "DependencyReady", "True", condition)
	},
	"Memcached/memcached-sample": func(t *testing.T, namespace string) {
		awaitRollout(t, namespace, "memcached-sample", 3)
		expectPage(t, namespace, "http://memcached-sample", "Welcome to nginx")
	},
	"MemcachedBackup/memcachedbackup-sample": expectMemcachedBackup,
	"Website/hello-world": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://hello-world", "Hello, Kubernetes Operator!")
		columns := run(t, namespace, "get", "websites")
		expect.Contains(t, "columns", strings.Join(strings.Fields(columns), " "), "NAME REPLICAS READY URL AGE", "http://hello-world.default.svc.cluster.local")
		children := run(t, namespace, "get", "deployment,service,configmap", "--selector=website=hello-world", "--output=name")
		expect.Equal(t, "children", 3, len(strings.Fields(children)))
		run(t, namespace, "delete", "deployment", "hello-world")
		awaitRollout(t, namespace, "hello-world", 2)
		run(t, namespace, "patch", "website", "hello-world", "--type=merge", "--patch", `{"spec":{"html":"<h1>Updated!</h1>"}}`)
		expectPage(t, namespace, "http://hello-world", "Updated!")
	},
	"Website/my-blog": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://my-blog", "Welcome to my blog")
	},
	"WebApp/my-webapp": func(t *testing.T, namespace string) {
		expect.Contains(t, "description", run(t, namespace, "describe", "webapp", "my-webapp"), "All 2 children are as desired and healthy")
		expect.Contains(t, "resources of the API", run(t, namespace, "api-resources"), "webapps")
		expectPage(t, namespace, "http://my-webapp", "Welcome to nginx")
	},
	"WebApp/test-webapp": func(t *testing.T, namespace string) {
		await(t, namespace, "deployment/test-webapp", "condition=Available")
		run(t, namespace, "get", "service", "test-webapp")
		expectPage(t, namespace, "http://test-webapp", "Welcome to nginx")
		run(t, namespace, "patch", "webapp", "test-webapp", "--type=merge", "--patch", `{"spec":{"replicas":3}}`)
		await(t, namespace, "deployment/test-webapp", "jsonpath={.spec.replicas}=3")
		run(t, namespace, "delete", "webapp", "test-webapp")
		await(t, namespace, "deployment/test-webapp", "delete")
	},
	"PostgreSQL/test-db": func(t *testing.T, namespace string) {
		expect.Contains(t, "version", run(t, namespace, "exec", "test-db-0", "--", "psql", "-U", "postgres", "-c", "SELECT version();"), "PostgreSQL")
	},
	"PostgreSQL/backed-up": func(t *testing.T, namespace string) {
		expectRows(t, namespace, "backed-up")
		expectReason(t, namespace, "postgresql/backed-up", "BackupConfigured", "NoDestination")
	},
	"AppConfig/shop": func(t *testing.T, namespace string) {
		expect.Equal(t, "key of the ConfigMap", "debug", run(t, namespace, "get", "configmap", "shop-config", "--output=jsonpath={.data.LOG_LEVEL}"))
	},
	"Backup/nightly": func(t *testing.T, namespace string) {
		run(t, namespace, "get", "cronjob/nightly-cronjob")
	},
	"EcommercePlatform/staging-platform": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://staging-platform-frontend", "Welcome to nginx")
		expectPage(t, namespace, "http://staging-platform-backend", "Welcome to nginx")
		expectComponents(t, namespace, "staging-platform")
	},
	"EcommercePlatform/production-store": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://production-store-frontend:8080", "Welcome to nginx")
		expectComponents(t, namespace, "production-store")
		expect.Contains(t, "objects", run(t, namespace, "get", "all", "--selector=platform=production-store"),
			"pod/production-store-db-2", "deployment.apps/production-store-frontend")
	},
}

// TestTutorials: what people who come from tutorials apply is Ready and does its job, with the commands that they type.
func TestTutorials(t *testing.T) {
	t.Parallel()
	namespace := shared.CreateNamespace(t, metav1.ObjectMeta{GenerateName: "tutorials-"})
	shared.CreateNamespace(t, metav1.ObjectMeta{Name: "ecommerce-prod"})
	for _, of := range []string{namespace, "default", "ecommerce-prod"} {
		startClient(t, of)
	}
	serveMemcached(t, "memcached-tutorial", createdChart(t), namespace)
	const file = "test/node/testdata/tutorials.yaml"
	objects, err := shared.Objects(file)
	expect.NoError(t, err)
	expect.Equal(t, "objects", len(playsOfTutorials), len(objects))

	expect.NoError(t, shared.ApplyFiles(t.Context(), namespace, file))

	for _, object := range objects {
		name := object.GetKind() + "/" + object.GetName()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := namespace
			if given := object.GetNamespace(); given != "" {
				namespace = given
			}
			awaitReady(t, namespace, resourceOf(object))
			playsOfTutorials[name](t, namespace)
		})
	}
}

// createdChart returns the chart that "helm create memcached" writes.
func createdChart(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	helm, err := cluster.BuildHelm(t.Context(), folder)
	expect.NoError(t, err)
	create := exec.CommandContext(t.Context(), helm, "create", "memcached")
	create.Dir = folder
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(folder, "memcached")
}

// expectReason expects that a condition of an object is False with a reason.
func expectReason(t *testing.T, namespace, object, conditionType, reason string) {
	t.Helper()
	got := run(t, namespace, "get", object, fmt.Sprintf(`--output=jsonpath={.status.conditions[?(@.type==%q)]['status','reason']}`, conditionType))
	expect.Equal(t, conditionType+" of "+object, "False "+reason, got)
}
