// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/plugin"
	"github.com/example/demoapp-controller/test/cluster"
)

// parallel is the number of parallel tests. Tests mostly wait, so the number can exceed the number
// of processors.
const parallel = "12"

// shared is the control plane of the tests, and operator an operator for all kinds.
var (
	shared   *cluster.Cluster
	operator *cluster.Operator
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	t := &cluster.MainTest{}
	defer t.CleanUp()
	if err := flag.Set("test.parallel", parallel); err != nil {
		t.Fatal(err)
	}
	shared = t.Start(cluster.Options{KeepNamespaces: true})
	if err := errors.Join(shared.InstallKinds(t.Context()), installCaches(t)); err != nil {
		t.Fatal(err)
	}
	licenses := httptest.NewServer(http.HandlerFunc(license))
	t.Cleanup(licenses.Close)
	operator = cluster.StartOperator(t.Context(), t, shared, "--watches-file="+writeWatches(t), "--logging-format=json",
		"--blocked-images=blocked.example.com/front", "--license-url="+licenses.URL+"/{{.Name}}")
	return t.End(m.Run())
}

// license answers for a DemoApp by its name.
func license(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/denied":
		w.WriteHeader(http.StatusForbidden)
	case "/unanswered":
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// cacheKinds are kinds of the watches file, with further fields of their entries. The operator does
// not serve Stranger.
var cacheKinds = map[string]string{
	"Cache": "", "Confined": ", scope: Namespace", "Deputy": ", serviceAccountName: deployer", "Stranger": "",
}

// writeWatches writes the watches file, and returns its path.
func writeWatches(t *cluster.MainTest) string {
	entries, err := os.ReadFile(filepath.Join(shared.Root(), "artifacts", "kinds", "memcached", "watches.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for kind, fields := range cacheKinds {
		if kind != "Stranger" {
			entries = fmt.Appendf(entries, "- {group: caches.example.com, version: v1, kind: %s, chart: test/integration/watches/testdata/cache%s}\n", kind, fields)
		}
	}
	path := filepath.Join(t.TempDir(), "watches.yaml")
	if err := os.WriteFile(path, entries, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// cachePermissions are the operator's permissions for the caches and the objects of their charts.
const cachePermissions = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: caches}
rules:
  - {apiGroups: [caches.example.com], resources: ["*"], verbs: [get, list, watch, patch]}
  - {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, patch, delete]}
  - {apiGroups: [""], resources: [serviceaccounts], resourceNames: [deployer], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: caches}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: caches}
subjects: [{kind: ServiceAccount, name: demoapp-controller, namespace: demoapp-system}]
`

// installCaches installs the CRDs of the caches and the permissions for them.
func installCaches(t *cluster.MainTest) error {
	for kind := range cacheKinds {
		lower := strings.ToLower(kind)
		crd := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.caches.example.com}
spec:
  group: caches.example.com
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]ss, singular: %[1]s, categories: [demoapp-controller]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, lower, kind)
		path := filepath.Join(t.TempDir(), lower+".yaml")
		if err := errors.Join(os.WriteFile(path, []byte(crd), 0o600), shared.InstallCRDs(t.Context(), path)); err != nil {
			return err
		}
	}
	path := filepath.Join(t.TempDir(), "permissions.yaml")
	return errors.Join(os.WriteFile(path, []byte(cachePermissions), 0o600), shared.ApplyFiles(t.Context(), "", path))
}

// answer is the output of a command.
type answer struct {
	code        int
	out, errors string
}

// kubectl runs a command of the plugin in a namespace.
func kubectl(t *testing.T, namespace string, args ...string) answer {
	t.Helper()
	return execute(t, shared.Kubeconfig(), namespace, args...)
}

// execute runs a command of the plugin with a kubeconfig.
func execute(t *testing.T, kubeconfig, namespace string, args ...string) answer {
	t.Helper()
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	args = append(args, "--kubeconfig", kubeconfig, "--namespace", namespace)
	code := plugin.Execute(t.Context(), plugin.Options{}, args, streams)
	return answer{code, out.String(), errs.String()}
}

// apply applies YAML documents in a namespace, whose name replaces $NAMESPACE.
func apply(t *testing.T, namespace, documents string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(documents, "$NAMESPACE", namespace)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyFiles(t.Context(), namespace, path); err != nil {
		t.Fatal(err)
	}
}

// deleteObject deletes an object.
func deleteObject(t *testing.T, namespace, kind, name string) {
	t.Helper()
	resource, err := shared.Mapper.ResourceFor(schema.GroupVersionResource{Resource: kind})
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Dynamic.Resource(resource).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
