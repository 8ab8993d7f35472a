// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"bytes"
	"errors"
	"flag"
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

// parallel is the number of parallel tests. Tests mostly wait, so the number can exceed that of
// processors.
const parallel = "12"

// shared is the control plane of the tests, with an operator for all kinds.
var shared *cluster.Cluster

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
	if err := installKinds(t); err != nil {
		t.Fatal(err)
	}
	cluster.StartOperator(t.Context(), t, shared, "--watches-file=artifacts/kinds/memcached/watches.yaml", "--logging-format=json")
	return t.End(m.Run())
}

// installKinds installs all kinds of artifacts/kinds.
func installKinds(t *cluster.MainTest) error {
	folders, err := filepath.Glob(filepath.Join(shared.Root(), "artifacts", "kinds", "*"))
	if err != nil || len(folders) == 0 {
		return errors.Join(err, errors.New("no kinds"))
	}
	for _, folder := range folders {
		err := errors.Join(
			shared.ApplyFiles(t.Context(), "", filepath.Join(folder, "rbac.yaml")),
			shared.InstallCRDs(t.Context(), filepath.Join(folder, "crd.yaml")),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// answer is what a command printed.
type answer struct {
	code        int
	out, errors string
}

// kubectl runs a command of the plugin in a namespace.
func kubectl(t *testing.T, namespace string, args ...string) answer {
	t.Helper()
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	args = append(args, "--kubeconfig", shared.Kubeconfig(), "--namespace", namespace)
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
