// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

const newestRecord = "shop/sh.helm.release.v1.web.v2"

// TestHandover lets releases go and takes them over. No operator runs: the status already has the
// answer that an operator would give.
func TestHandover(t *testing.T) {
	t.Parallel()
	const shown = "Release web, revision 2 (deployed), chart demo-app@0.1.0:\n  ConfigMap/web\n"
	conflict := conditions("Ready", "False", "OwnershipConflict", "")
	tests := []struct {
		name, args, answer string
		// owner is the label of the newest record; "self" is the UID of the object.
		owner       string
		status      map[string]any
		isChild     bool
		frozen      bool
		code        int
		out, errors string
		// label is a label of the newest record afterwards, as key=value.
		label          string
		gone, annotate bool
	}{
		{
			name: "orphan", args: "orphan demoapp/web", answer: "y\n", owner: "self", status: conflict, gone: true,
			out: "demoapp.demo.example.com/web deleted; release web and its objects stay\n", label: "engine.demo.example.com/owner=released",
			errors: shown + "Delete DemoApp/web and keep release web with these objects? [y/N] ",
		},
		{
			name: "orphan again after a timeout", args: "orphan demoapp/web -y", owner: "released", status: conflict, gone: true,
			out: "demoapp.demo.example.com/web deleted; release web and its objects stay\n", label: "engine.demo.example.com/owner=released",
		},
		{
			name: "the operator does not answer", args: "orphan demoapp/web -y --timeout=50ms", owner: "self", status: states["ready"], code: 1,
			errors: "timeout after 50ms: the operator has not let release web go, and nothing was deleted", label: "engine.demo.example.com/owner=released",
		},
		{name: "not confirmed", args: "orphan demoapp/web", owner: "self", status: conflict, code: 3, errors: "nothing was written", label: "engine.demo.example.com/owner=self"},
		{
			name: "the release of another owner", args: "orphan demoapp/web -y", owner: "other", status: conflict, code: 3,
			errors: "error: release web does not belong to DemoApp/web\n", label: "engine.demo.example.com/owner=other",
		},
		{
			name: "a child", args: "orphan demoapp/web -y", owner: "self", isChild: true, code: 3,
			errors: "error: DemoApp/web belongs to DemoAppCluster/all, which would create it again\n", label: "engine.demo.example.com/owner=self",
		},
		{
			name: "a user who may not write Secrets", args: "orphan demoapp/web -y", owner: "self", status: conflict, frozen: true, code: 3,
			errors: "shows what you may do\n", label: "engine.demo.example.com/owner=self",
		},
		{
			name: "adopt", args: "adopt demoapp/web", answer: "y\n", annotate: true, label: "engine.demo.example.com/adopt=true",
			out: "demoapp.demo.example.com/web requested to adopt release web\n", errors: shown + "Take release web over for DemoApp/web? [y/N] ",
		},
		{name: "adopt, not confirmed", args: "adopt demoapp/web", code: 3, errors: "nothing was written"},
		{name: "adopt, dry run", args: "adopt demoapp/web --dry-run=client", out: "demoapp.demo.example.com/web requested to adopt release web (dry run)\n"},
		{
			name: "adopt without the permission to write Secrets", args: "adopt demoapp/web -y", frozen: true, annotate: true,
			out: "demoapp.demo.example.com/web requested to adopt release web\n", errors: "warning: the record is not labeled, so only a DemoApp",
		},
		{
			name: "adopt an own release", args: "adopt demoapp/web", owner: "self", code: 3, errors: "error: release web belongs to DemoApp/web already\n",
			label: "engine.demo.example.com/owner=self",
		},
		{name: "no release", args: "adopt demoapp/db", code: 3, errors: "error: DemoApp/db has no release: there is no release db in namespace shop\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newAppsWorld(t)
			app := w.Edit("DemoApp", "shop/web", "kubectl", func(live *unstructured.Unstructured) {
				if test.isChild {
					isController := true
					live.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "demo.example.com/v1alpha1", Kind: "DemoAppCluster", Name: "all", UID: "1", Controller: &isController}})
				}
			})
			if test.status != nil {
				w.EditSubresource("DemoApp", "shop/web", "demoapp-controller", "status", func(live *unstructured.Unstructured) { live.Object["status"] = test.status })
			}
			self := strings.NewReplacer("self", string(app.GetUID()))
			w.Edit("Secret", newestRecord, "demoapp-controller", func(live *unstructured.Unstructured) {
				labels := live.GetLabels()
				if test.owner != "" {
					labels["engine.demo.example.com/owner"] = self.Replace(test.owner)
				}
				live.SetLabels(labels)
			})
			w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if test.frozen && request.Verb == "patch" && request.Key.Resource.Resource == "secrets" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, request.Key.Name, nil)
				}
				return nil
			}
			w.TakeRequests()

			code, out, errOut := w.answering(t, test.answer, strings.Fields(test.args)...)

			expect.Equal(t, "output", test.out, out)
			expect.Contains(t, "errors", errOut, test.errors)
			expect.Equal(t, "exit code", test.code, code)
			key, value, _ := strings.Cut(test.label, "=")
			expect.Equal(t, "label "+key, self.Replace(value), w.Object("Secret", newestRecord).GetLabels()[key])
			expect.Equal(t, "is gone", test.gone, !slices.Contains(w.Names(), "DemoApp shop/web"))
			if !test.gone {
				annotation := w.Object("DemoApp", "shop/web").GetAnnotations()["demo.example.com/adopt-release"]
				expect.Equal(t, "annotation", test.annotate, annotation == "true")
			}
			for _, request := range w.Requests() {
				if request.Verb == "delete" {
					expect.Contains(t, "deletion", string(request.Body), `"propagationPolicy":"Orphan"`, `"uid":"`+string(app.GetUID())+`"`)
				}
			}
		})
	}
}

// TestTakeoverPreview shows the changes that a takeover of a release of another operator would make.
func TestTakeoverPreview(t *testing.T) {
	t.Parallel()
	const (
		more = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n"
		hook = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: hook, annotations: {helm.sh/hook: \"pre-upgrade,test\", " +
			"helm.sh/hook-delete-policy: before-hook-creation}}\n"
		lookup = "{{ $_ := lookup \"v1\" \"ConfigMap\" \"other\" \"x\" }}"
		same   = "The takeover of release web would change no object.\n"
	)
	tests := []struct {
		name, template, args string
		message              string
		// labels are labels of the newest record; "self" is the UID of the object.
		labels      map[string]string
		intended    inspect.Intended
		code        int
		out, errors string
	}{
		{name: "nothing", template: configMapTemplate, message: "b", out: same},
		{
			name: "a change", template: configMapTemplate, message: "s3cret", code: 1,
			out: "The takeover of release web would:\n  change ConfigMap/web\n--- ConfigMap/web\tlive\n+++ ConfigMap/web\ttaken over\n" +
				"@@ -1,6 +1,6 @@\n apiVersion: v1\n data:\n-  text: '*** (before)'\n+  text: '*** (after)'\n kind: ConfigMap\n metadata:\n   name: web\n",
		},
		{
			name: "a secret", template: configMapTemplate, message: "s3cret", args: "--show-secrets", code: 1,
			out: "The takeover of release web would:\n  change ConfigMap/web\n--- ConfigMap/web\tlive\n+++ ConfigMap/web\ttaken over\n" +
				"@@ -1,6 +1,6 @@\n apiVersion: v1\n data:\n-  text: b\n+  text: s3cret\n kind: ConfigMap\n metadata:\n   name: web\n",
		},
		{
			name: "another object", template: more, message: "b", code: 1,
			out: "The takeover of release web would:\n  create ConfigMap/more\n  delete ConfigMap/web\n",
		},
		{
			name: "hooks", template: configMapTemplate + hook, message: "b", out: same,
			errors: "The takeover runs the hooks of an upgrade, which replace: Job/hook\n",
		},
		{
			name: "after a way back", template: configMapTemplate, message: "b", out: same, // Helm copies labels to the next revision.
			labels: map[string]string{"engine.demo.example.com/owner": "self", "engine.demo.example.com/inputs": "1-digest"},
		},
		{
			name: "an own release", template: configMapTemplate, message: "b", code: 3, errors: "error: release web belongs to DemoApp/web already\n",
			labels: map[string]string{"engine.demo.example.com/owner": "self", "engine.demo.example.com/inputs": "2-digest"},
		},
		{
			name: "a release name of the entry", template: configMapTemplate, message: "b", intended: inspect.Intended{Name: "other"},
			out: same, errors: "Release web, revision 2 (deployed)", // The status has the name of the release.
		},
		{name: "objects of other namespaces", template: configMapTemplate + lookup, message: "b", out: same},
		{
			name: "objects of other namespaces in a bounded release", template: configMapTemplate + lookup, message: "b", code: 3,
			intended: inspect.Intended{Bounded: true}, errors: "may only look up objects of namespace shop",
		},
		{name: "without a dry run", template: configMapTemplate, args: "--dry-run=none", code: 3, errors: "error: --watches-file: needs --dry-run=server\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newReleaseWorld(t)
			w.Edit("ConfigMap", "shop/web", "helm-operator", func(live *unstructured.Unstructured) {
				live.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
				live.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"})
				live.Object["data"] = map[string]any{"text": "b"}
			})
			uid := string(w.Object("DemoApp", "shop/web").GetUID())
			w.Edit("Secret", newestRecord, "helm-operator", func(live *unstructured.Unstructured) {
				labels := live.GetLabels()
				for key, value := range test.labels {
					labels[key] = strings.ReplaceAll(value, "self", uid)
				}
				live.SetLabels(labels)
			})
			w.watch(t, test.template, test.message, test.intended)
			before := w.Names()

			args := append(strings.Fields("adopt demoapp/web --dry-run=server --watches-file=watches.yaml"), strings.Fields(test.args)...)
			code, out, errOut := w.run(t, args...)

			expect.Equal(t, "exit code", test.code, code)
			expect.Equal(t, "begin of the output", test.out, out[:min(len(test.out), len(out))])
			expect.Contains(t, "errors", errOut, test.errors)
			expect.Equal(t, "objects", before, w.Names())
			expect.Equal(t, "text", "b", w.Object("ConfigMap", "shop/web").Object["data"].(map[string]any)["text"])
		})
	}
}

// watch gives the plugin a file with one entry, for a chart with one template.
func (w *releaseWorld) watch(t *testing.T, template, message string, intended inspect.Intended) {
	t.Helper()
	w.options.WatchedKinds = func(file string) ([]schema.GroupKind, error) {
		expect.Equal(t, "file", "watches.yaml", file)
		return []schema.GroupKind{{Group: "cache.my.domain", Kind: "Memcached"}, {Group: "cache.my.domain", Kind: "Fleet"}}, nil
	}
	w.options.Intended = func(_ context.Context, _ string, object *unstructured.Unstructured) (inspect.Intended, error) {
		var err error
		intended.Chart, err = chart.LoadFS(fstest.MapFS{
			"Chart.yaml":               {Data: []byte("apiVersion: v2\nname: demo-app\nversion: 0.1.0\n")},
			"templates/configmap.yaml": {Data: []byte(template)},
		}, ".")
		intended.Values = map[string]any{"message": message}
		intended.Overridden = intended.Values
		intended.Namespace, intended.Name = cmp.Or(intended.Namespace, object.GetNamespace()), cmp.Or(intended.Name, object.GetName())
		return intended, err
	}
}

// TestTakeoverPreviewOfKinds previews takeovers of kinds that the operator does not serve yet.
func TestTakeoverPreviewOfKinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, object string
		intended     inspect.Intended
	}{
		{name: "a CRD that prunes the status", object: "kind: Memcached\nmetadata: {namespace: shop, name: web}\n"},
		{
			name: "a cluster-scoped kind", object: "kind: Fleet\nmetadata: {name: web}\n",
			intended: inspect.Intended{Namespace: "shop"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newReleaseWorld(t)
			w.Serve(schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "memcacheds"}, "Memcached", true)
			w.Serve(schema.GroupVersionResource{Group: "cache.my.domain", Version: "v1", Resource: "fleets"}, "Fleet", false)
			w.create(t, "apiVersion: cache.my.domain/v1\n"+test.object)
			w.Edit("ConfigMap", "shop/web", "helm-operator", func(live *unstructured.Unstructured) {
				live.Object["data"] = map[string]any{"text": "b"}
			})
			w.watch(t, configMapTemplate, "b", test.intended)
			object := &unstructured.Unstructured{}
			expect.NoError(t, yaml.Unmarshal([]byte(test.object), &object.Object))

			code, out, errOut := w.run(t, "adopt", object.GetKind()+"/"+object.GetName(), "--dry-run=server", "--watches-file=watches.yaml")

			expect.Equal(t, "output", "The takeover of release web would change no object.\n", out)
			expect.Contains(t, "errors", errOut, "Release web, revision 2 (deployed)")
			expect.Equal(t, "exit code", 0, code)
		})
	}
}
