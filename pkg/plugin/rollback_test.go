// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

func TestRollbackCommand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, manager string
		args          []string
		code          int
		message       string
		out, errors   string
	}{
		{name: "written", args: []string{"--to=1", "--yes"}, message: "a", out: "demoapp.demo.example.com/web rolled back to the spec of revision 1"},
		{name: "not confirmed", args: []string{"--to=1"}, code: 3, message: "b", out: "-  message: b\n+  message: a\n", errors: "nothing was written"},
		{name: "nothing to restore", args: []string{"--to=2", "--yes"}, message: "b", out: "has the restorable spec of revision 2 already"},
		{
			name: "a GitOps tool", manager: "kustomize-controller", args: []string{"--to=1"}, code: 3, message: "b",
			errors: "warning: kustomize-controller wrote the spec of DemoApp/web",
		},
		{name: "dry run", args: []string{"--to=1", "--dry-run=server"}, message: "b", out: "rolled back to the spec of revision 1 (server dry run)\n"},
		{name: "waits", args: []string{"--to=1", "--yes", "--wait", "--timeout=0"}, code: 1, message: "a", errors: "1 of 1 objects wait"},
		{name: "no revision", code: 3, message: "b", errors: "--to: name a revision"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newReleaseWorld(t)
			if test.manager != "" {
				w.Apply("DemoApp", "shop/web", test.manager, map[string]any{"spec": map[string]any{"message": "b"}})
			}
			w.deployCurrent()
			code, out, errOut := w.run(t, append([]string{"rollback", "demoapp/web"}, test.args...)...)
			expect.Contains(t, "output", out, test.out)
			expect.Contains(t, "errors", errOut, test.errors)
			expect.Equal(t, "exit code", test.code, code)
			message, _, _ := unstructured.NestedString(w.Object("DemoApp", "shop/web").Object, "spec", "message")
			expect.Equal(t, "message afterwards", test.message, message)
		})
	}
}

// deployCurrent records that the operator has deployed the current spec.
func (w *releaseWorld) deployCurrent() {
	generation := w.Object("DemoApp", "shop/web").GetGeneration()
	w.Edit("Secret", "shop/sh.helm.release.v1.web.v2", "demoapp-controller", func(live *unstructured.Unstructured) {
		labels := live.GetLabels()
		labels["engine.demo.example.com/inputs"] = "2-inputs-chart"
		labels["engine.demo.example.com/owner-generation"] = strconv.FormatInt(generation, 10)
		live.SetLabels(labels)
	})
}

// TestRollbackBesideOtherWrites: while the user is asked, another client may write the status. A
// spec that it writes stays.
func TestRollbackBesideOtherWrites(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		field   []string
		message string
		code    int
	}{
		"status": {[]string{"status", "phase"}, "a", 0},
		"spec":   {[]string{"spec", "message"}, "theirs", 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newReleaseWorld(t)
			w.deployCurrent()
			answer := readerFunc(func(into []byte) (int, error) {
				w.Edit("DemoApp", "shop/web", "theirs", func(live *unstructured.Unstructured) {
					expect.NoError(t, unstructured.SetNestedField(live.Object, "theirs", test.field...))
				})
				return copy(into, "y\n"), nil
			})

			var out, errOut bytes.Buffer
			code := w.execute(t, genericiooptions.IOStreams{In: answer, Out: &out, ErrOut: &errOut}, "rollback", "demoapp/web", "--to=1")

			expect.Equal(t, "exit code: "+errOut.String(), test.code, code)
			message, _, _ := unstructured.NestedString(w.Object("DemoApp", "shop/web").Object, "spec", "message")
			expect.Equal(t, "message afterwards", test.message, message)
		})
	}
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(into []byte) (int, error) { return f(into) }

func TestValuesCommand(t *testing.T) {
	t.Parallel()
	code, out, errOut := newReleaseWorld(t).run(t, "values", "demoapp/web")
	expect.Equal(t, "exit code", 0, code)
	expect.Equal(t, "errors", "", errOut)
	expect.Equal(t, "output", `VALUE          SOURCE              CONTENT
message        spec.message        "b"
replicaCount   spec.replicaCount   1
`, out)
}

// TestValuesWithoutASource: the values of the other sources are shown, and an error names each
// source that is gone or may not be read.
func TestValuesWithoutASource(t *testing.T) {
	t.Parallel()
	w := newReleaseWorld(t)
	owner := w.Object("DemoApp", "shop/web")
	w.options.Kinds = map[schema.GroupKind]inspect.KindFunctions{owner.GroupVersionKind().GroupKind(): {
		Fields: func(_ *unstructured.Unstructured, in inspect.FieldsInput) (inspect.Fields, error) {
			key, err := in.Secret("keys", "api")
			return inspect.Fields{
				Values: map[string]any{"apiKey": key}, Secret: [][]string{{"apiKey"}}, Sources: map[string]string{"apiKey": "spec.apiKeyFrom"},
			}, err
		},
	}}
	w.forbid("keys")
	w.Edit("DemoApp", "shop/web", "helm", func(live *unstructured.Unstructured) {
		live.Object["spec"] = map[string]any{
			"values":     map[string]any{"message": "c"},
			"valuesFrom": []any{map[string]any{"kind": "ConfigMap", "name": "gone"}},
		}
	})
	for flag, key := range map[string]string{"--show-secrets=false": `"***"`, "--show-secrets": `"<not readable>"`} {
		code, out, errOut := w.run(t, "values", "demoapp/web", flag)
		expect.Contains(t, "output", out, "apiKey         spec.apiKeyFrom   "+key+"\n", "message        spec.values       \"c\"\n")
		expect.Equal(t, "errors", `error: spec.valuesFrom[0]: configmaps "gone" not found
error: spec: secrets "keys" is forbidden: injected; kubectl auth can-i --list -n shop shows what you may do
`, errOut)
		expect.Equal(t, "exit code", 3, code)
	}
}

func TestVersionCommand(t *testing.T) {
	t.Parallel()
	w := newReleaseWorld(t)
	w.options.Version = "v2"
	code, out, errOut := w.run(t, "version")
	expect.Equal(t, "output", "Plugin:   v2\nOperator: v1, leader none\n", out)
	expect.Equal(t, "errors", "", errOut)
	expect.Equal(t, "exit code", 0, code)

	w.forbid("demoapp-controller")
	code, out, errOut = w.run(t, "version")
	expect.Equal(t, "output without permission", "Plugin:   v2\nOperator: unknown, leader unknown\n", out)
	expect.Contains(t, "errors without permission", errOut, `warning: leases.coordination.k8s.io "demoapp-controller" is forbidden`)
	expect.Equal(t, "exit code without permission", 0, code)
}

func TestGetSeveralNames(t *testing.T) {
	t.Parallel()
	w := newAppsWorld(t)
	for _, args := range []string{"demoapp/web demoapp/db", "demoapp web db"} {
		code, out, errOut := w.run(t, append([]string{"get", "-o", "name"}, strings.Fields(args)...)...)
		expect.Equal(t, args, "demoapp.demo.example.com/db\ndemoapp.demo.example.com/web\n", out)
		expect.Equal(t, "errors", "", errOut)
		expect.Equal(t, "exit code", 0, code)
	}
}

func TestStatusForPrograms(t *testing.T) {
	t.Parallel()
	code, out, _ := newReleaseWorld(t).run(t, "status", "demoapp/web", "-o", "yaml")
	expect.Contains(t, "output", out, "objects:\n  apiVersion: demo.example.com/v1alpha1\n", "release:\n  chart: demo-app\n", "state: Not ready\n")
	expect.Equal(t, "exit code", 0, code)
}
