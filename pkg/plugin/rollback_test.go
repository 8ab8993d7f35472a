// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		{name: "no revision", code: 3, message: "b", errors: "--to: name a revision"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newReleaseWorld(t)
			if test.manager != "" {
				w.Apply("DemoApp", "shop/web", test.manager, map[string]any{"spec": map[string]any{"message": "b"}})
			}
			generation := w.Object("DemoApp", "shop/web").GetGeneration()
			// The operator has deployed the current spec.
			w.Edit("Secret", "shop/sh.helm.release.v1.web.v2", "demoapp-controller", func(live *unstructured.Unstructured) {
				labels := live.GetLabels()
				labels["engine.demo.example.com/inputs"] = "2-inputs-chart"
				labels["engine.demo.example.com/owner-generation"] = strconv.FormatInt(generation, 10)
				live.SetLabels(labels)
			})
			code, out, errOut := w.run(t, append([]string{"rollback", "demoapp/web"}, test.args...)...)
			expect.Contains(t, "output", out, test.out)
			expect.Contains(t, "errors", errOut, test.errors)
			expect.Equal(t, "exit code", test.code, code)
			message, _, _ := unstructured.NestedString(w.Object("DemoApp", "shop/web").Object, "spec", "message")
			expect.Equal(t, "message afterwards", test.message, message)
		})
	}
}

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
