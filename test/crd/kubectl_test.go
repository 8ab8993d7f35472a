// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package crd

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/cluster"
)

// TestKubectlFindsObjectsByEachName asks kubectl for the example of each kind by all names of the
// kind. No operator runs, so the objects stay as they are.
func TestKubectlFindsObjectsByEachName(t *testing.T) {
	files := Files(t)
	c := start(t, files)
	namespace, objects, cache := c.Namespace(t), examples(t, c), t.TempDir()
	get := func(args ...string) string {
		t.Helper()
		args = slices.Concat([]string{
			"--kubeconfig=" + c.Kubeconfig(), "--cache-dir=" + cache, "--namespace=" + namespace, "get", "--output=name",
		}, args)
		output, err := exec.CommandContext(t.Context(), c.Kubectl(), args...).CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %s: %v: %s", strings.Join(args[3:], " "), err, output)
		}
		return string(output)
	}
	for _, file := range files {
		definition := Load(t, file).Internal.Spec
		object := objects[definition.Names.Kind]
		if object == nil {
			t.Errorf("no example has the kind %s", definition.Names.Kind)
			continue
		}
		object.SetNamespace(namespace)
		if err := c.ApplyObject(t.Context(), namespace, object); err != nil {
			t.Fatal(err)
		}
		expected := definition.Names.Singular + "." + definition.Group + "/" + object.GetName() + "\n"

		for _, name := range slices.Concat([]string{definition.Names.Plural, definition.Names.Singular}, definition.Names.ShortNames) {
			if found := get(name); found != expected {
				t.Errorf("kubectl get %s: got %q, expected %q", name, found, expected)
			}
			if found := get(name, object.GetName()); found != expected {
				t.Errorf("kubectl get %s %s: got %q, expected %q", name, object.GetName(), found, expected)
			}
		}
		for _, category := range definition.Names.Categories {
			if found := get(category); !strings.Contains(found, expected) {
				t.Errorf("kubectl get %s: got %q, expected %q among them", category, found, expected)
			}
		}
	}
}

// start starts a control plane with the CRDs.
func start(t *testing.T, files []string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := c.InstallCRDs(t.Context(), files...); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKubectlSaysWhatToWrite shows the whole message that a user gets: the field, the value, and
// the allowed values.
func TestKubectlSaysWhatToWrite(t *testing.T) {
	const backup = `{source: {type: postgresql, connection: {host: db, database: shop, credentialsSecret: login}},
		destination: {type: s3, bucket: dumps, credentialsSecret: keys}, schedule: "@daily"}`
	tests := map[string]struct{ apiVersion, kind, spec, want string }{
		"an image": {
			"example.com/v1", "WebApp", `{replicas: 1, image: "a b"}`,
			`spec.image: Invalid value: "a b": must be an image reference such as nginx:1.27-alpine, registry.example.com/team/web:v1 or nginx@sha256:<digest>`,
		},
		"a quantity": {
			"example.com/v1", "WebApp", `{replicas: 1, image: nginx, resources: {limits: {memory: lots}}}`,
			`spec.resources.limits: Invalid value: quantities must be numbers with an optional unit, such as 500m, 256Mi or 2Gi`,
		},
		"a bucket": {
			"backup.example.com/v1", "Backup", strings.Replace(backup, "bucket: dumps", "bucket: a/b", 1),
			`spec.destination.bucket: Invalid value: "a/b": must be the name of a bucket, without a path`,
		},
		"a retention in months": {
			"backup.example.com/v1", "Backup", strings.Replace(backup, "schedule:", "retention: 3m, schedule:", 1),
			`spec.retention: Invalid value: "3m": must be a number of hours, days or weeks, such as 12h, 30d or 8w`,
		},
		"a host": {
			"demo.example.com/v1alpha1", "DemoApp", `{apiKey: verysecret, ingress: {host: "https://web", className: nginx}}`,
			`spec.ingress.host: Invalid value: "https://web": must be a DNS name in lower case, such as shop.example.com or *.example.com`,
		},
		"buffers": {
			"database.example.com/v1", "PostgreSQL", `{version: "17", resources: {limits: {memory: 1Gi}}, parameters: {shared_buffers: 2GB}}`,
			"shared_buffers must be less than the memory limit in spec.resources.limits: lower it, or raise the limit",
		},
	}
	c := start(t, Files(t))
	namespace, cache := c.Namespace(t), t.TempDir()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), c.Kubectl(), "--kubeconfig="+c.Kubeconfig(), "--cache-dir="+cache,
				"--namespace="+namespace, "apply", "--filename=-")
			// An older kubectl takes an object in braces for JSON.
			command.Stdin = strings.NewReader("apiVersion: " + test.apiVersion + "\nkind: " + test.kind + "\nmetadata: {name: a}\nspec: " + test.spec)

			output, err := command.CombinedOutput()

			if err == nil || !strings.Contains(string(output), test.want) {
				t.Errorf("kubectl says %q (%v), want %q in it", output, err, test.want)
			}
			t.Logf("%s", output)
		})
	}
}

// examples returns an example of each kind.
func examples(t *testing.T, c *cluster.Cluster) map[string]*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.Root(), "artifacts", "kinds", "*", "example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := c.Objects(slices.Concat([]string{"artifacts/examples"}, files)...)
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		if examples[object.GetKind()] == nil {
			examples[object.GetKind()] = object
		}
	}
	return examples
}
