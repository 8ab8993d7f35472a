// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
)

const (
	// group is the API group of all kinds of the tests.
	group = "caches.example.com"
	// fleetNamespace has the releases of the cluster-scoped kind.
	fleetNamespace = "fleet-releases"
	// parallel is the number of parallel tests. Tests mostly wait, so the number can exceed the
	// number of processors.
	parallel = "12"
	// chart is the chart of all kinds, relative to the root of the repository.
	chart = "test/integration/watches/testdata/cache"
)

// entries is the watches file, with the entries of the scaffolded kinds after the start.
// TestFileChanges appends entries to it.
var entries = `
- {group: caches.example.com, version: v1, kind: Cache, chart: ` + chart + `}
- {group: caches.example.com, version: v1, kind: Late, chart: ` + chart + `}
- {group: caches.example.com, version: v1, kind: Fleet, chart: ` + chart + `, releaseNamespace: fleet-releases}
- {group: caches.example.com, version: v1, kind: Confined, chart: ` + chart + `, scope: Namespace}
- {group: caches.example.com, version: v1, kind: Deputy, chart: ` + chart + `, serviceAccountName: deployer}
- {group: caches.example.com, version: v1, kind: Pruned, chart: ` + chart + `}
- {group: caches.example.com, version: v1, kind: Waited, chart: ` + chart + `, waitForReady: true, timeout: 10s}
`

// permissions are the operator's permissions for the kinds of the tests. Those for the objects of
// the chart are in artifacts/deploy.
const permissions = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: watches-test}
rules:
  - {apiGroups: [caches.example.com], resources: ["*"], verbs: [list, watch, patch]}
  - {apiGroups: [caches.example.com], resources: [widgets, gadgets, vessels, racks], verbs: [get, create, delete]}
  - {apiGroups: [""], resources: [serviceaccounts], resourceNames: [deployer], verbs: [impersonate]}
  - {apiGroups: [apps], resources: [statefulsets, daemonsets], verbs: [get, list, watch, create, patch, delete]}
  - {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: watches-test}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: watches-test}
subjects: [{kind: ServiceAccount, name: demoapp-controller, namespace: demoapp-system}]
`

// The tests share a control plane and an operator.
var (
	shared   *cluster.Cluster
	operator *cluster.Operator
	// watchesFile is the path of the operator's watches file.
	watchesFile string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	t := &cluster.MainTest{}
	defer t.CleanUp()
	watchesFile = filepath.Join(t.TempDir(), "watches.yaml")
	shared = t.Start(cluster.Options{Audit: true, KeepNamespaces: true})
	install(t)
	entries += scaffolded(t)
	err := errors.Join(
		os.WriteFile(watchesFile, []byte(entries), 0o600),
		flag.Set("test.parallel", parallel),
	)
	if err != nil {
		t.Fatal(err)
	}
	operator = cluster.StartOperator(t.Context(), t, shared, "--watches-file="+watchesFile)
	return t.End(m.Run())
}

// install installs the CRDs of all kinds except Late and Added, and the operator's permissions.
func install(t testing.TB) {
	t.Helper()
	for _, kind := range []string{"Cache", "Confined", "Deputy", "Added", "Waited"} {
		installCRD(t, definition{kind: kind})
	}
	installCRD(t, definition{kind: "Fleet", clusterScoped: true})
	installCRD(t, definition{kind: "Pruned", prunes: true})
	apply(t, "", permissions)
	_, err := shared.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// definition is a CRD.
type definition struct {
	kind          string
	clusterScoped bool
	// prunes says that the API server removes all fields of the status except conditions.
	prunes bool
	// versions are the served versions; default v1. The first is stored.
	versions []string
}

// resource returns the plural name of a kind.
func resource(kind string) string { return strings.ToLower(kind) + "s" }

func (d definition) yaml() string {
	scope, status := "Namespaced", "{type: object, x-kubernetes-preserve-unknown-fields: true}"
	if d.clusterScoped {
		scope = "Cluster"
	}
	if d.prunes {
		status = "{type: object, properties: {conditions: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}"
	}
	if d.versions == nil {
		d.versions = []string{"v1"}
	}
	var versions strings.Builder
	for i, version := range d.versions {
		fmt.Fprintf(&versions, `
  - name: %s
    served: true
    storage: %t
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {x-kubernetes-preserve-unknown-fields: true}
          status: %s`, version, i == 0, status)
	}
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[1]s, singular: %[4]s}
  scope: %[5]s
  versions:%[6]s
`, resource(d.kind), group, d.kind, strings.ToLower(d.kind), scope, versions.String())
}

// installCRD applies a CRD and returns when it is served.
func installCRD(t testing.TB, d definition) {
	t.Helper()
	if err := shared.InstallCRDs(t.Context(), write(t, d.yaml())); err != nil {
		t.Fatal(err)
	}
}

// apply applies the objects of a YAML text.
func apply(t testing.TB, namespace, text string) {
	t.Helper()
	if err := shared.ApplyFiles(t.Context(), namespace, write(t, text)); err != nil {
		t.Fatal(err)
	}
}

// write writes a text to a new file and returns its path.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// awaitMetric waits until the operator has a line among its metrics.
func awaitMetric(t *testing.T, line string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "metric "+line, func(ctx context.Context) (bool, error) {
		metrics, err := operator.Metrics(ctx)
		return strings.Contains(metrics, "\n"+line+"\n"), err
	})
}
