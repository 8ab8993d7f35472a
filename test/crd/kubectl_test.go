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
	c, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	files := Files(t)
	if err := c.InstallCRDs(t.Context(), files...); err != nil {
		t.Fatal(err)
	}
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
		definition := Load(t, file).Internal().Spec
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
