// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// playsOfExamples are the commands in the comments of artifacts/examples, by the name of the file, in the namespace of the example.
// Before them, all DemoApps of the file are Ready and serve their message.
var playsOfExamples = map[string]func(t *testing.T, namespace string){
	"demoapp.yaml": playDemoApp,
	"demoapp-apikeyfrom.yaml": func(t *testing.T, namespace string) {
		expect.Equal(t, "key in the pod", "a-key-nobody-else-sees", variable(t, namespace, "demoapp-with-secret", "API_KEY"))
	},
	"demoappcluster.yaml": func(t *testing.T, namespace string) {
		awaitReady(t, namespace, "demoappcluster/page")
		for app := range strings.FieldsSeq(run(t, namespace, "get", "demoapps", "--selector=demo.example.com/cluster=page", "--output=name")) {
			awaitReady(t, namespace, app)
			expectPage(t, namespace, "http://"+strings.TrimPrefix(app, "demoapp.demo.example.com/"), "Hello from this node")
		}
	},
	"drift-policy.yaml": func(t *testing.T, namespace string) {
		run(t, namespace, "scale", "deployment", "kept-clean", "--replicas=2")
		run(t, namespace, "patch", "configmap", "kept-clean", "--patch", `{"data": {"extra": "key"}}`)
		awaitOutput(t, namespace, "[]", "get", "configmap", "kept-clean", "--output=jsonpath=[{.data.extra}]")
		awaitRollout(t, namespace, "kept-clean", 2)
	},
	"drift-warn.yaml": func(t *testing.T, namespace string) {
		run(t, namespace, "patch", "configmap", "only-watched", "--patch", `{"data": {"index.html": "changed by hand"}}`)
		await(t, namespace, "demoapp/only-watched", "condition=Drifted")
		message := run(t, namespace, "get", "demoapp", "only-watched", `--output=jsonpath={.status.conditions[?(@.type=="Drifted")].message}`)
		expect.Contains(t, "message", message, "ConfigMap only-watched (changed): /data/index.html")
	},
	"ingress.yaml": func(t *testing.T, namespace string) {
		apply(t, namespace, "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: example}, spec: {controller: example.com/none}}")
		t.Cleanup(func() {
			_, err := kubectl(context.WithoutCancel(t.Context()), "delete", "ingressclass/example")
			expect.NoError(t, err)
		})
		awaitOutput(t, namespace, "ClusterCapabilitiesChanged https://outside.example.com", "get", "demoapp", "demoapp-outside",
			"--output=jsonpath={.status.lastUpgradeReason} {.status.externalURL}")
		run(t, namespace, "get", "ingress", "demoapp-outside")
	},
	"reconcile-now.yaml": func(t *testing.T, namespace string) {
		const at = "2026-02-03T04:05:06Z"
		run(t, namespace, "annotate", "--overwrite", "demoapp/on-request", "demo.example.com/requested-at="+at, "demo.example.com/force-at="+at)
		await(t, namespace, "demoapp/on-request", "jsonpath={.status.lastHandledForceAt}="+at)
	},
	"remediation.yaml": func(t *testing.T, namespace string) {
		run(t, namespace, "patch", "demoapp", "careful", "--type=merge", "--patch", `{"spec": {"nodeName": "no-such-node"}}`)
		await(t, namespace, "demoapp/careful", "condition=Remediated")
		expectPage(t, namespace, "http://careful", "<h1>")
	},
	"validation.yaml": func(t *testing.T, namespace string) {
		awaitOutput(t, namespace, `Node port 30123 belongs to DemoApp "port-holder", which is older`, "get", "demoapp", "port-wanter",
			`--output=jsonpath={.status.conditions[?(@.type=="Validated")].message}`)
		run(t, namespace, "patch", "demoapp", "port-holder", "--type=merge", "--patch", `{"spec": {"service": {"type": "ClusterIP", "nodePort": null}}}`)
		awaitReady(t, namespace, "demoapp/port-wanter")
		expectPage(t, namespace, "http://port-wanter", "I was second")
	},
	"values.yaml": func(t *testing.T, namespace string) {
		expect.Equal(t, "variable in the pod", "only-some-may-know", variable(t, namespace, "demoapp-with-values", "GREETER"))
	},
	"waitfor.yaml": func(t *testing.T, namespace string) {
		expect.Equal(t, "reason", "CrossCRDependencyBecameReady", run(t, namespace, "get", "demoapp", "app-b", "--output=jsonpath={.status.lastUpgradeReason}"))
	},
}

// variable returns a variable of the first container of a Deployment, as its process has it.
func variable(t *testing.T, namespace, deployment, name string) string {
	t.Helper()
	return strings.TrimSpace(run(t, namespace, "exec", "deployment/"+deployment, "--", "sh", "-c", "echo $"+name))
}

// TestExamples: each object of artifacts/examples is Ready and serves its page, and the commands in the comments have their effects.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(shared.Root(), "artifacts", "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			takePlace(t)
			namespace := restricted(t, "example")
			startClient(t, namespace)
			objects, err := shared.Objects(file)
			expect.NoError(t, err)

			run(t, namespace, "apply", "--filename="+file)

			if filepath.Base(file) == "suspend.yaml" {
				awaitOutput(t, namespace, "SuspendedBySpec", "get", "demoapp", "suspended")
				run(t, namespace, "patch", "demoapp", "suspended", "--type=merge", "--patch", `{"spec": {"suspend": false}}`)
			}
			for _, object := range objects {
				if object.GetKind() == "DemoApp" && object.GetName() != "port-wanter" {
					expectDemoApp(t, namespace, object)
				}
			}
			if play := playsOfExamples[filepath.Base(file)]; play != nil {
				play(t, namespace)
			}
		})
	}
}

// expectDemoApp waits until a DemoApp is Ready and serves its message.
func expectDemoApp(t *testing.T, namespace string, object *unstructured.Unstructured) {
	t.Helper()
	awaitReady(t, namespace, "demoapp/"+object.GetName())
	message, _, err := unstructured.NestedString(object.Object, "spec", "message")
	expect.NoError(t, err)
	expectPage(t, namespace, "http://"+object.GetName(), message)
}

// playDemoApp types what readers of the hybrid operator's tutorial type.
func playDemoApp(t *testing.T, namespace string) {
	t.Helper()
	const app = "demoapp-sample"
	expect.Contains(t, "releases", run(t, namespace, "get", "secrets", "--selector=owner=helm", "--output=name"), "sh.helm.release.v1."+app+".v1")
	expect.Contains(t, "deployed release", run(t, namespace, "get", "demoapp", app, "--output=jsonpath={.status.deployedRelease}"), app)

	run(t, namespace, "patch", "demoapp", app, "--type=merge", "--patch", `{"spec":{"replicaCount":2}}`)
	awaitOutput(t, namespace, "SpecGenerationChanged", "get", "demoapp", app, "--output=jsonpath={.status.lastUpgradeReason}")
	awaitRollout(t, namespace, app, 2)
	run(t, namespace, "patch", "configmap", app, "--type=merge", "--patch", `{"data":{"index.html":"<h1>HACKED</h1>"}}`)
	awaitOutput(t, namespace, "DriftDetected", "get", "demoapp", app, "--output=jsonpath={.status.lastUpgradeReason}")
	expect.Contains(t, "page in the ConfigMap", run(t, namespace, "get", "configmap", app, "--output=jsonpath={.data.index\\.html}"), "Hello from the hybrid operator")
	expectPage(t, namespace, "http://"+app, "Hello from the hybrid operator")

	run(t, namespace, "delete", "demoapp", app)
	expect.Contains(t, "audit records", run(t, "demoapp-audit", "get", "configmaps", "--output=yaml"), namespace)
	awaitOutput(t, namespace, "No resources found", "get", "all,configmaps,secrets", "--selector=app.kubernetes.io/name="+app)
}

// playsOfKinds say what the objects of artifacts/kinds do, by the folder. Before them, the objects are Ready.
var playsOfKinds = map[string]func(t *testing.T, namespace string){
	"appconfig": func(t *testing.T, namespace string) {
		// The workload may roll once more after the AppConfig has seen it.
		awaitOutput(t, namespace, "info", "exec", "deployment/appconfig-sample", "--", "sh", "-c", "echo $LOG_LEVEL")
		run(t, namespace, "rollout", "status", "deployment/appconfig-sample", "--timeout=5m")
		file := run(t, namespace, "exec", "deployment/appconfig-sample", "--", "cat", "/etc/shop/application.properties")
		expect.Contains(t, "file in the pod", file, "environment=prod", "db.url=jdbc:postgresql://db.example.com:5432/shop", "feature.checkout=true")
	},
	"appstack": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://appstack-sample-frontend:8080", "Welcome to nginx")
		expectComponents(t, namespace, "appstack-sample")
	},
	"backup": func(t *testing.T, namespace string) {
		run(t, namespace, "get", "cronjob/backup-sample-cronjob")
	},
	"ecommerceplatform": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://shop-sample-frontend:8080", "Welcome to nginx")
		expectComponents(t, namespace, "shop-sample")
	},
	"memcached": func(t *testing.T, namespace string) {
		expectStored(t, namespace, "memcached-sample", "11212")
	},
	"memcachedbackup": expectMemcachedBackup,
	"postgresql": func(t *testing.T, namespace string) {
		expectRows(t, namespace, "postgresql-sample")
	},
	"webapp": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://webapp-sample:8080", "Welcome to nginx")
	},
	"website": func(t *testing.T, namespace string) {
		expectPage(t, namespace, "http://website-sample", "Hello from a Website")
	},
}

// expectComponents expects that the backend has the login of the database, and that the cache stores a key.
func expectComponents(t *testing.T, namespace, name string) {
	t.Helper()
	expect.Equal(t, "host of the database", name+"-db", variable(t, namespace, name+"-backend", "DATABASE_HOST"))
	if variable(t, namespace, name+"-backend", "DATABASE_PASSWORD") == "" {
		t.Error("the backend has no password of the database")
	}
	expectRows(t, namespace, name+"-db")
	cache := "deployment/" + name + "-cache"
	expect.Contains(t, "answer of the cache", run(t, namespace, "exec", cache, "--", "redis-cli", "set", "key", "stored"), "OK")
	expect.Contains(t, "value of the cache", run(t, namespace, "exec", cache, "--", "redis-cli", "get", "key"), "stored")
}

// expectRows writes rows into the database app of a PostgreSQL and reads them, in the pod of the primary, as the tutorial does.
func expectRows(t *testing.T, namespace, name string) {
	t.Helper()
	rows := run(t, namespace, "exec", name+"-0", "--", "psql", "--username=postgres", "--quiet", "--tuples-only", "--no-align",
		"--command=CREATE TABLE played (id int); INSERT INTO played VALUES (1), (2); SELECT count(*) FROM played")
	expect.Contains(t, "rows of "+name, rows, "2")
}

// expectStored stores a key in a memcached and reads it.
func expectStored(t *testing.T, namespace, host, port string) {
	t.Helper()
	const script = `printf 'set key 0 0 6\r\nstored\r\nget key\r\nquit\r\n' | timeout 5 nc "$0" "$1"`
	cluster.Eventually(t.Context(), t, "a key in memcached "+host, func(context.Context) (bool, error) {
		out, err := execute(t, namespace, "client", "sh", "-c", script, host, port)
		return strings.Contains(out, "VALUE key 0 6"), fmt.Errorf("%w: %q", err, out)
	})
}

func expectMemcachedBackup(t *testing.T, namespace string) {
	t.Helper()
	nodes := run(t, namespace, "get", "memcachedbackup/memcachedbackup-sample", "--output=jsonpath={.status.nodes[*]}")
	expect.Equal(t, "pods", 2, len(strings.Fields(nodes)))
	for pod := range strings.FieldsSeq(nodes) {
		expectStored(t, namespace, run(t, namespace, "get", "pod", pod, "--output=jsonpath={.status.podIP}"), "11211")
	}
}

// TestExamplesOfKinds: each object of artifacts/kinds is Ready and does its job.
func TestExamplesOfKinds(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob(filepath.Join(shared.Root(), "artifacts", "kinds", "*"))
	expect.NoError(t, err)
	expect.Equal(t, "folders of artifacts/kinds", len(playsOfKinds), len(folders))
	for kind, play := range playsOfKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			takePlace(t)
			namespace := restricted(t, kind)
			startClient(t, namespace)
			if kind == "memcached" {
				serveMemcached(t, "memcached-example", filepath.Join(shared.Root(), "examples", "hybrid", "charts", "memcached"), namespace)
			}
			file := filepath.Join("artifacts", "kinds", kind, "example.yaml")
			objects, err := shared.Objects(file)
			expect.NoError(t, err)

			run(t, namespace, "apply", "--filename="+file)

			for _, object := range objects {
				if strings.Contains(object.GetAPIVersion(), ".") && object.GetKind() != "Deployment" {
					awaitReady(t, namespace, resourceOf(object))
				}
			}
			play(t, namespace)
		})
	}
}

// resourceOf returns KIND.GROUP/NAME of an object, as kubectl takes it.
func resourceOf(object *unstructured.Unstructured) string {
	kind := object.GroupVersionKind()
	return strings.ToLower(kind.Kind) + "." + kind.Group + "/" + object.GetName()
}

// serveMemcached runs an operator for the Memcacheds of a namespace, with a chart.
func serveMemcached(t *testing.T, name, chart, namespace string) {
	t.Helper()
	serveChart(t, name, "{group: cache.my.domain, version: v1, kind: Memcached}", chart, "--namespaces="+namespace)
}
