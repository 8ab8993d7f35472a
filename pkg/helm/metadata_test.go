// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// TestMetadataOfWrongType: metadata that the engine could not read is refused before any
// request. The error names the file, the object, the key, and the type of the value.
func TestMetadataOfWrongType(t *testing.T) {
	withMetadata := func(metadata string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: " + metadata + "\n" }
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"label": {
			map[string]string{"templates/cm.yaml": withMetadata("{name: x, labels: {a: text, version: 1.5}}")},
			`test/templates/cm.yaml: ConfigMap "x": metadata.labels.version: must be a string, got number: quote the value in the template`,
		},
		"annotation": {
			map[string]string{"templates/cm.yaml": withMetadata("{name: x, annotations: {helm.sh/resource-policy: keep, flag: true}}")},
			`test/templates/cm.yaml: ConfigMap "x": metadata.annotations.flag: must be a string, got boolean: quote the value in the template`,
		},
		"annotation with a prefix": {
			map[string]string{"templates/cm.yaml": withMetadata("{name: x, annotations: {example.com/port: 80}}")},
			`test/templates/cm.yaml: ConfigMap "x": metadata.annotations["example.com/port"]: must be a string, got number: quote the value in the template`,
		},
		"labels": {
			map[string]string{"templates/cm.yaml": withMetadata("{name: x, labels: [a]}")},
			`test/templates/cm.yaml: ConfigMap "x": metadata.labels: must be an object, got list`,
		},
		"name": {
			map[string]string{"templates/cm.yaml": withMetadata("{name: y}")},
			`test/templates/cm.yaml: ConfigMap: metadata.name: must be a string, got boolean: quote the value in the template`,
		},
		"namespace": {
			map[string]string{"templates/cm.yaml": withMetadata("{name: x, namespace: 1}")},
			`test/templates/cm.yaml: ConfigMap "x": metadata.namespace: must be a string, got number: quote the value in the template`,
		},
		"owner references": {
			map[string]string{"templates/cm.yaml": withMetadata(`{name: x, ownerReferences: [{name: a, controller: "true"}]}`)},
			`test/templates/cm.yaml: ConfigMap "x": metadata.ownerReferences[0].controller: must be a boolean, got string`,
		},
		"item of a List": {
			map[string]string{"templates/l.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: x, labels: {a: 1}}}\n"},
			`test/templates/l.yaml: ConfigMap "x": metadata.labels.a: must be a string, got number: quote the value in the template`,
		},
		"List without items": {
			map[string]string{"templates/l.yaml": "apiVersion: v1\nkind: List\nitems:\n"},
			`test/templates/l.yaml: List: items: must be a list, got null`,
		},
		"hook": {
			map[string]string{"templates/hook.yaml": strings.Replace(hook("job", "pre-install", 5), `"5"`, "5", 1)},
			`hook test/templates/hook.yaml: Job "job": metadata.annotations["helm.sh/hook-weight"]: must be a string, got number: quote the value in the template`,
		},
		"file under crds/": {
			map[string]string{"crds/a.yaml": thingsCRD, "crds/b.yaml": strings.Replace(thingsCRD, "metadata: {", "metadata: {labels: {a: 1}, ", 1)},
			`test/crds/b.yaml: CustomResourceDefinition "things.example.com": metadata.labels.a: must be a string, got number: quote the value in the template`,
		},
		"several objects": {
			map[string]string{"templates/a.yaml": withMetadata("{name: x, labels: {a: 1, b: true}}"), "templates/b.yaml": withMetadata("{generateName: x}")},
			`3 errors: test/templates/a.yaml: ConfigMap "x": metadata.labels.a: must be a string, got number: quote the value in the template; ` +
				`test/templates/a.yaml: ConfigMap "x": metadata.labels.b: must be a string, got boolean: quote the value in the template; ` +
				`test/templates/b.yaml: ConfigMap: metadata.name is missing: set it, metadata.generateName is not supported`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				_, err := f.reconcile(made(t, test.files))

				if got := wantError[*RenderError](t, err); got.Err.Error() != test.want {
					t.Errorf("error is\n%s\nwant\n%s", got.Err, test.want)
				}
				wantRequests(t, f)
			})
		})
	}
}

// TestMetadataErrorLimits: the error about a large chart names some objects and counts the rest.
func TestMetadataErrorLimits(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		objects := "{{ range until 5000 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ repeat 200 \"x\" }}, labels: {a: 1}}\n{{ end }}\n"

		_, err := f.reconcile(made(t, map[string]string{"templates/a.yaml": objects}))

		text := wantError[*RenderError](t, err).Error()
		if len(text) > 4<<10 || !strings.Contains(text, "5000 errors: ") || !strings.HasSuffix(text, "; and 4990 more") {
			t.Errorf("the error has %d bytes: %.100s ... %s", len(text), text, text[max(0, len(text)-100):])
		}
	})
}

// TestMetadataOfTests: a test is run by users, so its metadata is theirs to correct.
func TestMetadataOfTests(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(made(t, map[string]string{
			"templates/a.yaml": configMap("a", "1"), "templates/test.yaml": strings.Replace(hook("test", "test", 5), `"5"`, "5", 1),
		}), ActionInstall, CauseNotInstalled)
	})
}

// TestNullInMetadata: as on the API server, a null in labels or annotations is an empty text.
func TestNullInMetadata(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: null, labels: {a: null, b: text}, annotations: null, ownerReferences: null}\n"

		f.must(made(t, map[string]string{"templates/a.yaml": object}), ActionInstall, CauseNotInstalled)

		want := map[string]string{"a": "", "b": "text", manifest.ManagedByLabel: manifest.ManagedByHelm}
		if diff := cmp.Diff(want, f.Object("ConfigMap", "default/a").GetLabels()); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
}

// keptAnnotations are the annotations of an object that a chart keeps.
func keptAnnotations(flag string) string {
	return "  annotations: {helm.sh/resource-policy: keep, flag: " + flag + "}\n"
}

// unreadKeep is a chart with an object that has annotations.
func unreadKeep(t *testing.T, annotations string) Release {
	t.Helper()
	kept := strings.Replace(configMap("kept", "1"), "metadata:\n", "metadata:\n"+annotations, 1)
	desired := made(t, map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/kept.yaml": kept})
	owner := demoOwner()
	desired.Owner = &owner
	return desired
}

// bubbleWithUnreadKeep runs a test in a bubble with a release as earlier versions installed
// it: because of an annotation that is not a text, the kept object has an owner and none of
// the chart's annotations.
func bubbleWithUnreadKeep(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fixture) {
		f.must(unreadKeep(t, ""), ActionInstall, CauseNotInstalled)
		f.stop()
		f.forge(1, func(rls *releasev1.Release) {
			rls.Manifest = strings.Replace(rls.Manifest, "  name: kept\n", keptAnnotations("true")+"  name: kept\n", 1)
			sum := sha256.Sum256([]byte(rls.Manifest))
			f.baseline.Revisions = []record.Digest{{Revision: 1, Digest: record.ManifestDigest(hex.EncodeToString(sum[:]))}}
		})
		f.start(f.config())
		test(t, f)
	})
}

// wantKept holds that the kept object exists and that no owner controls it.
func wantKept(t *testing.T, f *fixture) *unstructured.Unstructured {
	t.Helper()
	kept := f.Object("ConfigMap", "default/kept")
	if kept == nil {
		t.Fatal("the kept object is gone")
	}
	if owners := kept.GetOwnerReferences(); len(owners) > 0 {
		t.Errorf("the garbage collector removes the kept object with %v", owners)
	}
	return kept
}

// TestUnreadKeep: an object that earlier versions did not see as kept is kept from now on.
func TestUnreadKeep(t *testing.T) {
	t.Run("uninstall", func(t *testing.T) {
		bubbleWithUnreadKeep(t, func(t *testing.T, f *fixture) {
			f.uninstall(unreadKeep(t, ""))

			wantKept(t, f)
			if diff := cmp.Diff([]string{"ConfigMap default/kept"}, f.Names()); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("upgrade to a chart without it", func(t *testing.T) {
		bubbleWithUnreadKeep(t, func(t *testing.T, f *fixture) {
			without := made(t, map[string]string{"templates/a.yaml": configMap("a", "1")})
			without.Owner = unreadKeep(t, "").Owner

			if _, err := f.reconcile(without); err != nil {
				t.Fatal(err)
			}

			wantKept(t, f)
		})
	})
	t.Run("drift", func(t *testing.T) {
		bubbleWithUnreadKeep(t, func(t *testing.T, f *fixture) {
			f.Edit("ConfigMap", "default/kept", "kubectl", change("2", "data", "key"))
			synctest.Wait()

			f.must(unreadKeep(t, ""), ActionRepair, CauseDrift)

			if got := wantKept(t, f).GetAnnotations(); got["flag"] != "true" || got[manifest.ResourcePolicyAnnotation] != "keep" {
				t.Errorf("annotations are %v", got)
			}
		})
	})
	t.Run("upgrade to the same chart", func(t *testing.T) {
		bubbleWithUnreadKeep(t, func(t *testing.T, f *fixture) {
			_, err := f.reconcile(unreadKeep(t, keptAnnotations("true")))

			_ = wantError[*RenderError](t, err)
			wantRecords(t, f, "web.v1 deployed")
		})
	})
	t.Run("upgrade to a corrected chart, and rollback", func(t *testing.T) {
		bubbleWithUnreadKeep(t, func(t *testing.T, f *fixture) {
			corrected := unreadKeep(t, keptAnnotations(`"false"`))
			if _, err := f.reconcile(corrected); err != nil {
				t.Fatal(err)
			}
			if got := wantKept(t, f).GetAnnotations(); got["flag"] != "false" || got[manifest.ResourcePolicyAnnotation] != "keep" {
				t.Errorf("annotations are %v", got)
			}
			f.TakeRequests()

			err := f.rollback(corrected, 1)

			if text := fmt.Sprint(wantError[*RenderError](t, err)); !strings.Contains(text, "metadata.annotations.flag") {
				t.Errorf("error is %q", text)
			}
			wantRequests(t, f)
		})
	})
}
