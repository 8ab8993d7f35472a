// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/example/demoapp-controller/test/memory"
)

// TestOwnersKeepText: the reference is written into a document, and nothing else in it
// is written in another way.
func TestOwnersKeepText(t *testing.T) {
	const (
		lines = "- apiVersion: demo.example.com/v1alpha1\n  blockOwnerDeletion: true\n  controller: true\n  kind: DemoApp\n  name: web\n  uid: u1\n"
		coded = `{"apiVersion":"demo.example.com/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"DemoApp","name":"web","uid":"u1"}`
	)
	block := func(indent string) string {
		text := "ownerReferences:\n" + lines
		return indent + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+indent) + "\n"
	}
	tests := map[string]struct{ text, want string }{
		"keys that are booleans in YAML 1.1, flow metadata": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {on: x, y: 'z'}}\ndata:\n  n: \"5\"\n  yes: \"no\"\n",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {\"ownerReferences\": [" + coded + "], name: a, annotations: {on: x, y: 'z'}}\ndata:\n  n: \"5\"\n  yes: \"no\"\n",
		},
		"in a List": {
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: a # a\n  data:\n    # about n\n    n: '5'\n- apiVersion: v1\n  kind: ClusterRole\n  metadata:\n    name: b\n",
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n" + block("    ") + "    name: a # a\n  data:\n    # about n\n    n: '5'\n- apiVersion: v1\n  kind: ClusterRole\n  metadata:\n    name: b\n",
		},
		"comments": {
			"# Source: a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: # here\n  # the name\n  name: a\ndata:\n  # about on\n  on: \"off\" # and off\n",
			"# Source: a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: # here\n" + block("  ") + "  # the name\n  name: a\ndata:\n  # about on\n  on: \"off\" # and off\n",
		},
		"another owner": {
			"kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\n  ownerReferences:\n  - {apiVersion: v1, kind: ConfigMap, name: x, uid: x1}\ndata:\n  n: '5'\n  s: &s 010\n  t: *s\n",
			"kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: a\n  ownerReferences:\n  - apiVersion: v1\n    kind: ConfigMap\n    name: x\n    uid: x1\n" + strings.ReplaceAll("  "+strings.TrimSuffix(strings.ReplaceAll(lines, "\n", "\n  "), "  "), "\n\n", "\n") + "data:\n  n: '5'\n  s: &s 010\n  t: *s\n",
		},
		"texts": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  # a\n  name: a\ndata:\n  a: |-\n    n: 5\n      on: x\n  b: |\n\n    # no comment\n  c:   \"\\u00e9\\n\"\n  d: 0x1F\n  e: ~\n",
			"",
		},
		"JSON": {
			"{\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\",\n \"metadata\": { \"name\": \"a\" }, \"data\": {\"n\": \"\\u00e9\", \"f\": 1.0, \"e\": 1e3}}\n",
			"{\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\",\n \"metadata\": {\"ownerReferences\": [" + coded + "],  \"name\": \"a\" }, \"data\": {\"n\": \"\\u00e9\", \"f\": 1.0, \"e\": 1e3}}\n",
		},
		"a List in JSON, behind a comment": {
			"# Source: a.json\n{\"apiVersion\":\"v1\",\"kind\":\"List\",\n \"items\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"é\"},\"n\":1},\n  {\"apiVersion\":\"v1\",\"kind\":\"ClusterRole\",\"metadata\":{}}, {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"é\":1,\"metadata\":{}}]}\n",
			"# Source: a.json\n{\"apiVersion\":\"v1\",\"kind\":\"List\",\n \"items\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"ownerReferences\": [" + coded + "], \"name\":\"é\"},\"n\":1},\n  {\"apiVersion\":\"v1\",\"kind\":\"ClusterRole\",\"metadata\":{}}, {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"é\":1,\"metadata\":{\"ownerReferences\": [" + coded + "]}}]}\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := postRender(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want == "" {
				// Only the reference is added.
				want = strings.Replace(tc.text, "metadata:\n", "metadata:\n"+block("  "), 1)
			}
			if diff := cmp.Diff("---\n"+want, got); diff != "" {
				t.Errorf("rendered (-want +got):\n%s", diff)
			}
		})
	}
}

// flat returns the objects of a manifest, with the items of Lists as objects.
func flat(t *testing.T, documents []Document) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, document := range documents {
		for _, object := range document.Objects {
			if !object.IsList() {
				all = append(all, object)
				continue
			}
			if err := object.EachListItem(func(item runtime.Object) error {
				all = append(all, item.(*unstructured.Unstructured))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// asText are objects as JSON, in which a number is the same with and without a
// fraction of zero.
func asText(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	texts := make([]string, 0, len(objects))
	for _, object := range objects {
		data, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	return texts
}

// FuzzManifest: no manifest makes the parser panic or exceed its memory limit, and the insertion of
// owners keeps the objects and adds the owner.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  n: \"5\"\n",
		"# Source: a\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {on: x}}\n---\n{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"b\"}}\n",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ClusterRole\n  metadata: {name: a}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    # b\n    name: b\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: &l {a: b}\n  annotations: *l\n  ownerReferences: [{apiVersion: v1, kind: A, name: a, uid: a}]\n",
		"kind: A\napiVersion: v1\nmetadata:\n  name: a\nb: |\n  c: \"\nd: [0, {a: 'b'}]\n? e\n: - f\n  - - \"g\n  h\"\n",
		"a: &a [lol]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: {<<: &m {e: f}}\n",
		"{a: &a x, b: [*a]}\n", "a: &a\n  b: *a\n", "metadata: null\nkind: A\n", "- a\n", "a: b\r\nc: \"\u0085\"\r\n",
		"{\"kind\":\"A\",\"metadata\":{\"a\":1.0}}{}null{\"kind\":\"B\",\"metadata\":{\"b\":9007199254740993}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		if len(manifest) > 1<<20 {
			t.Skip("what the limit is for has at most 1 MiB")
		}
		before := memory.Allocated()
		documents, err := Parse(manifest)
		if took := memory.Allocated() - before; took > memory.Limit {
			t.Errorf("parsing allocated %d bytes, want at most %d", took, memory.Limit)
		}
		if err != nil {
			return
		}
		for _, document := range documents {
			if missed := undercount(document.Text); missed > 0 {
				t.Errorf("%d nodes were not counted in %q", missed, document.Text)
			}
		}

		owners := testOwners()
		written, writtenDocuments, err := owners.Write(manifest, documents)
		if err != nil {
			return
		}
		again, err := Parse(written)
		if err != nil {
			t.Fatalf("%q cannot be parsed: %v", written, err)
		}
		if got, want := Hash("", writtenDocuments), Hash("", again); got != want {
			t.Errorf("the hash of the documents of %q differs from that of the text", written)
		}

		want := flat(t, documents)
		for i, object := range want {
			want[i] = object.DeepCopy()
			if err := owners.Own(want[i]); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(asText(t, want), asText(t, flat(t, again))); diff != "" {
			t.Errorf("objects of %q (-want +got):\n%s", written, diff)
		}
	})
}
