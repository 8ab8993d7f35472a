// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package secrets

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/canary"
	"github.com/example/demoapp-controller/test/cluster"
)

// parallel is the number of parallel tests. Tests mostly wait, so the number can exceed the number
// of processors.
const parallel = "16"

// unanswered is part of the names of objects for which the servers of the flags close the
// connection.
const unanswered = "unanswered"

// shared is the control plane of the tests.
var shared *cluster.Cluster

// canaries are the secrets of all tests.
var canaries canary.Set

// operatorArgs are the flags of the operator with secrets.
var operatorArgs []string

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
	shared = t.Start(cluster.Options{Audit: true, KeepNamespaces: true})
	if err := errors.Join(shared.InstallKinds(t.Context()), installWatched(t), writeWatchesFile(t)); err != nil {
		t.Fatal(err)
	}
	return t.End(m.Run())
}

// watchedKinds are further kinds of the chart memcached. Their overrides, which are secret, make
// the release fail: in the schema, in the merge of values, and at the API server.
var watchedKinds = map[string]string{
	"SchemaFailure": `{image.pullPolicy: $CANARY_OVERRIDE}`,
	"MergeFailure":  `{image: $CANARY_OVERRIDE}`,
	"ApplyFailure":  `{serviceAccount.create: "true", serviceAccount.name: $CANARY_NAME}`,
}

func installWatched(t *cluster.MainTest) error {
	var crds, rules strings.Builder
	for kind := range watchedKinds {
		plural := strings.ToLower(kind) + "s"
		fmt.Fprintf(&crds, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.canary.example.com}
spec:
  group: canary.example.com
  scope: Namespaced
  names: {plural: %[1]s, singular: %[2]s, kind: %[3]s, listKind: %[3]sList}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
`, plural, strings.ToLower(kind), kind)
	}
	rules.WriteString(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: canary-test}
rules:
  - {apiGroups: [canary.example.com], resources: ["*"], verbs: [list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: canary-test}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: canary-test}
subjects: [{kind: ServiceAccount, name: demoapp-controller, namespace: demoapp-system}]
`)
	dir := t.TempDir()
	crdFile, ruleFile := filepath.Join(dir, "crds.yaml"), filepath.Join(dir, "rules.yaml")
	return errors.Join(
		os.WriteFile(crdFile, []byte(crds.String()), 0o600), os.WriteFile(ruleFile, []byte(rules.String()), 0o600),
		shared.InstallCRDs(t.Context(), crdFile), shared.ApplyFiles(t.Context(), "", ruleFile),
	)
}

// writeWatchesFile writes the watches file, and sets operatorArgs and the environment of the
// operator.
func writeWatchesFile(t *cluster.MainTest) error {
	const chart = "examples/hybrid/charts/memcached"
	var file strings.Builder
	fmt.Fprintf(&file, "- {group: cache.my.domain, version: v1, kind: Memcached, chart: %s, overrideValues: {ingress.className: $CANARY_OVERRIDE}}\n", chart)
	for kind, overrides := range watchedKinds {
		fmt.Fprintf(&file, "- {group: canary.example.com, version: v1, kind: %s, chart: %s, overrideValues: %s}\n", kind, chart, overrides)
	}
	path := filepath.Join(t.TempDir(), "watches.yaml")
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	operatorArgs = []string{
		"--watches-file=" + path,
		"--license-retry=2s",
		"--license-url=" + server.URL + "/{{.Namespace}}/{{.Name}}?token=" + canaries.New("the token of --license-url"),
		"--webapp-cleanup-url=" + server.URL + "/{{.Namespace}}/{{.Name}}?token=" + canaries.New("the token of --webapp-cleanup-url"),
	}
	return errors.Join(
		os.WriteFile(path, []byte(file.String()), 0o600),
		os.Setenv("CANARY_OVERRIDE", canaries.New("an override of watches.yaml")),
		os.Setenv("CANARY_NAME", canaries.New("an override of watches.yaml that names an object")+"_INVALID"),
	)
}

// answer refuses objects by name, and repeats the whole request in the answer.
func answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.Contains(r.URL.Path, unanswered):
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			closeAtOnce(connection)
		}
	case strings.Contains(r.URL.Path, "refused"):
		http.Error(w, r.Method+" "+r.URL.String(), http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

func closeAtOnce(connection net.Conn) {
	// The client sees an error either way.
	_ = connection.Close()
}
