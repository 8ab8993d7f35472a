// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/cluster"
)

const (
	// quiet is how long the operator sends no request about a namespace after its work is done.
	quiet = 2 * time.Second
	// glance is how long it sends none before the state is compared.
	glance = time.Second / 2
)

var seed = flag.Int64("seed", 1, "seed of what is chosen at random: the faults of short tests, generated changes, the soak")

// shortSubjects are the subjects of a short test: one of each kind of controller.
var shortSubjects = []string{"DemoApp", "DemoAppCluster", "Deputy", "Website"}

var (
	// mainTest ends after all tests.
	mainTest = &cluster.MainTest{}
	shared   *cluster.Cluster
	// proxy is the operator's way to the API server, on which sabotage breaks its requests.
	proxy    *cluster.Proxy
	sabotage *saboteur
	// launch describes the operator.
	launch   cluster.Launch
	operator *cluster.Operator
	// kinds are the resources of the subjects.
	kinds []schema.GroupVersionResource
)

// entries is the watches file: the Memcached of the hybrid example, and the same chart with an
// impersonated account.
const entries = `
- {group: cache.my.domain, version: v1, kind: Memcached, chart: CHART}
- {group: chaos.example.com, version: v1, kind: Deputy, chart: CHART, serviceAccountName: deployer}
`

const deputies = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: deputies.chaos.example.com}
spec:
  group: chaos.example.com
  names: {kind: Deputy, listKind: DeputyList, plural: deputies, singular: deputy}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

const permissions = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: chaos}
rules:
  - {apiGroups: [chaos.example.com], resources: ["*"], verbs: [list, watch, patch]}
  - {apiGroups: [""], resources: [serviceaccounts], resourceNames: [deployer], verbs: [impersonate]}
  - {apiGroups: [""], resources: [namespaces], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: chaos}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: chaos}
subjects: [{kind: ServiceAccount, name: demoapp-controller, namespace: demoapp-system}]
`

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	t := mainTest
	defer t.CleanUp()
	if testing.Short() {
		maps.DeleteFunc(subjects, func(name string, _ subject) bool { return !slices.Contains(shortSubjects, name) })
	}
	if err := checkUpdate(); err != nil {
		t.Fatal(err)
	}
	// Runs mostly wait, so their number can exceed the number of processors.
	if err := flag.Set("test.parallel", "40"); err != nil {
		t.Fatal(err)
	}
	shared = t.Start(cluster.Options{Audit: true, KeepNamespaces: true})
	if err := shared.InstallKinds(t.Context()); err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(t.TempDir(), "crd.yaml")
	if err := errors.Join(os.WriteFile(crd, []byte(deputies), 0o600), shared.InstallCRDs(t.Context(), crd)); err != nil {
		t.Fatal(err)
	}
	apply(t.Context(), t, "", permissions)
	sabotage = newSaboteur()
	proxy = shared.NewProxy(t)
	proxy.Intercept(sabotage.intercept)
	launch = cluster.Launch{Proxy: proxy, Args: []string{watchesOf(t, memcachedChart()), "--logging-format=json"}}
	operator = launch.Start(t.Context(), t, shared).AwaitReady(t.Context(), t)
	kinds = kindsServed(t)
	code := m.Run()
	if *update {
		if err := writeResults(code == 0); err != nil {
			t.Fatal(err)
		}
	}
	return t.End(code)
}

// memcachedChart is the folder of the chart of watches.yaml.
func memcachedChart() string {
	return filepath.Join(shared.Root(), "examples", "hybrid", "charts", "memcached")
}

// watchesOf returns the flag of a new watches file, in which the entries have the chart in a
// folder.
func watchesOf(t testing.TB, chart string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "watches.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(entries, "CHART", chart)), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--watches-file=" + file
}
