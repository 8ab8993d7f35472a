// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/plugin"
)

// scaffoldFolder has a folder for each scaffolded kind.
var scaffoldFolder string

// scaffolds are the charts of pkg/scaffold that TestCreateKind installs.
var scaffolds = []string{"typed", "plain", "required", "wide", "conditional"}

// scaffolded makes kinds of charts with "create kind", and applies their files as they are. It
// returns the entries of the watches file.
func scaffolded(t testing.TB) string {
	t.Helper()
	scaffoldFolder = t.TempDir()
	var entries strings.Builder
	for _, name := range scaffolds {
		charts := filepath.Join(shared.Root(), "pkg", "scaffold", "testdata")
		args := []string{
			"create", "kind", "--chart", filepath.Join(charts, name), "--group", "scaffold.example.com",
			"--output", filepath.Join(scaffoldFolder, name),
		}
		if values := filepath.Join(charts, name+"-values.yaml"); name == "required" {
			args = append(args, "--values", values)
		}
		var out, errs bytes.Buffer
		if code := plugin.Execute(t.Context(), plugin.Options{}, args, genericiooptions.IOStreams{Out: &out, ErrOut: &errs}); code != 0 {
			t.Fatalf("create kind of %s: exit code %d: %s", name, code, &errs)
		}
		file := func(name string) string { return filepath.Join(scaffoldFolder, filepath.Base(args[3]), name) }
		if err := shared.InstallCRDs(t.Context(), file("crd.yaml")); err != nil {
			t.Fatal(err)
		}
		if err := shared.ApplyFiles(t.Context(), "", file("rbac.yaml"), file("user-roles.yaml")); err != nil {
			t.Fatal(err)
		}
		entry, err := os.ReadFile(file("watches.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		entries.Write(entry)
	}
	return entries.String()
}

// TestCreateKind: the operator installs the charts of scaffolded kinds from their examples. It has the
// permissions for objects that a user switches on, a Role included, and the CRDs accept the types that
// the charts accept.
func TestCreateKind(t *testing.T) {
	s := newSpace(t)
	changed := map[string]string{
		"typed": `{"replicas": 0, "rbac": {"create": true}}`,
		"wide": `{"image": {"tag": "1.27.1"}, "minAvailable": "50%", "targetPort": 8080, "timeout": "30s", "ratio": 0.5, "priority": 5, "debug": "true",
			"schedule": "@daily", "hosts": "a,b", "annotations": "a: b", "resources": {"requests": {"cpu": "500m"}}}`,
		"conditional": `{"mode": "ha", "existingSecret": "", "rbac": "full"}`,
	}
	for _, name := range scaffolds {
		example := filepath.Join(scaffoldFolder, name, "example.yaml")
		if err := shared.ApplyFiles(t.Context(), s.name, example); err != nil {
			t.Fatal(err)
		}
		objects, err := shared.Objects(example)
		if err != nil {
			t.Fatal(err)
		}
		shared.AwaitReady(t.Context(), t, s.name, objects[0])
		spec, ok := changed[name]
		if !ok {
			continue
		}
		if err := objects[0].UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion": %q, "kind": %q, "metadata": {"name": %q}, "spec": %s}`,
			objects[0].GetAPIVersion(), objects[0].GetKind(), objects[0].GetName(), spec)); err != nil {
			t.Fatal(err)
		}
		if err := shared.ApplyObject(t.Context(), s.name, objects[0]); err != nil {
			t.Fatal(err)
		}
		shared.AwaitReady(t.Context(), t, s.name, objects[0])
	}
}
