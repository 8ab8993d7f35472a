// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

func TestDiffCommand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		args      []string
		file      string
		edited    bool
		forbidden bool
		// version is the version of a plugin that knows DemoApps. The operator has v1.
		version    string
		code       int
		out, error string
	}{
		{name: "equal", args: []string{"demoapp/web"}},
		{name: "drift", args: []string{"demoapp/web"}, edited: true, code: 1, out: `--- ConfigMap/web	live
+++ ConfigMap/web	desired
@@ -1,6 +1,6 @@
 apiVersion: v1
 data:
-  text: edited
+  text: b
 kind: ConfigMap
 metadata:
   annotations:
# .data.text is set by kubectl-edit
`},
		{name: "drift without the permission to patch", args: []string{"demoapp/web"}, edited: true, forbidden: true, code: 1, out: `--- ConfigMap/web	live
+++ ConfigMap/web	desired
@@ -1,6 +1,6 @@
 apiVersion: v1
 data:
-  text: edited
+  text: b
 kind: ConfigMap
 metadata:
   annotations:
# .data.text is set by kubectl-edit
`, error: "warning: ConfigMap/web: compared without defaults and removed fields, because a dry run is not allowed"},
		{name: "change by a flag", args: []string{"demoapp/web", "--set", "spec.message=c"}, code: 1, out: changedMessage},
		{name: "equal, for a program", args: []string{"demoapp/web", "-o", "json"}, out: "[]\n"},
		{name: "changes by one flag", args: []string{"demoapp/web", "--set", "spec.message=c,spec.replicaCount=1"}, code: 1, out: changedMessage},
		{name: "change by a file", file: "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, metadata: {name: web}, spec: {message: c, replicaCount: 1}}", code: 1, out: changedMessage},
		{
			name: "another version of the operator", args: []string{"demoapp/web"}, version: "v2",
			error: "warning: the operator has version v1 and this plugin v2; what the operator desires may differ\n",
		},
		{name: "the same version", args: []string{"demoapp/web"}, version: "v1"},
		{name: "no change", args: []string{"demoapp/web", "--set", "spec.message=b"}},
		{name: "no assignment", args: []string{"demoapp/web", "--set", "spec.message"}, code: 3, error: "write PATH=VALUE"},
		{name: "two objects", args: []string{"demoapp/web"}, file: "{}", code: 3, error: "leave out KIND/NAME"},
		{name: "no object", file: "{spec: {}}", code: 3, error: "must be one object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newReleaseWorld(t)
			owner := w.Object("DemoApp", "shop/web")
			w.Edit("ConfigMap", "shop/web", "helm", func(live *unstructured.Unstructured) {
				live.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
				live.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"})
				controller := true
				live.SetOwnerReferences([]metav1.OwnerReference{{
					APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &controller,
				}})
				live.Object["data"] = map[string]any{"text": "b"}
			})
			if test.edited {
				w.Edit("ConfigMap", "shop/web", "kubectl-edit", func(live *unstructured.Unstructured) { live.Object["data"] = map[string]any{"text": "edited"} })
			}
			w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if test.forbidden && request.Verb == "apply" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "web", nil)
				}
				return nil
			}
			if w.options.Version = test.version; test.version != "" {
				w.options.Kinds = map[schema.GroupKind]inspect.KindFunctions{owner.GroupVersionKind().GroupKind(): {}}
			}
			args := append([]string{"diff"}, test.args...)
			if test.file != "" {
				name := filepath.Join(t.TempDir(), "web.yaml")
				expect.NoError(t, os.WriteFile(name, []byte(test.file), 0o600))
				args = append(args, "-f", name)
			}
			before := w.Object("ConfigMap", "shop/web")
			code, out, errOut := w.run(t, args...)
			expect.Contains(t, "errors", errOut, test.error)
			expect.Equal(t, "whether there are errors", test.error != "", errOut != "")
			expect.Equal(t, "output", test.out, out)
			expect.Equal(t, "exit code", test.code, code)
			expect.Equal(t, "ConfigMap afterwards", before, w.Object("ConfigMap", "shop/web"))
		})
	}
}

const changedMessage = `--- DemoApp/web	live
+++ DemoApp/web	changed
@@ -4,5 +4,5 @@
   name: web
   namespace: shop
 spec:
-  message: b
+  message: c
   replicaCount: 1
--- ConfigMap/web	live
+++ ConfigMap/web	changed
@@ -1,6 +1,6 @@
 apiVersion: v1
 data:
-  text: b
+  text: c
 kind: ConfigMap
 metadata:
   annotations:
`
