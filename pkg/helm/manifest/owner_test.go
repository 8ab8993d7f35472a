// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
)

// testOwners are references to the demo owner.
func testOwners() *Owners {
	return &Owners{
		Owner: metav1.OwnerReference{
			APIVersion: "demo.example.com/v1alpha1", Kind: "DemoApp", Name: "web", UID: "u1",
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		},
		Namespace: "default",
		Namespaced: func(kind schema.GroupVersionKind) (bool, error) {
			switch kind.Kind {
			case "ClusterRole":
				return false, nil
			case "Unknown":
				return false, &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
			case "Unlucky":
				return false, errors.New("no connection")
			}
			return true, nil
		},
	}
}

func postRender(manifests string) (string, error) {
	documents, err := Parse(manifests)
	if err != nil {
		return "", err
	}
	written, _, err := testOwners().Write(manifests, documents)
	return written, err
}

// documents returns the parsed documents of manifests.
func documents(t *testing.T, manifests string) []map[string]any {
	t.Helper()
	var all []map[string]any
	decoder := kyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		var document map[string]any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if document != nil {
			all = append(all, document)
		}
	}
}

func TestOwnerReferences(t *testing.T) {
	const (
		owner  = "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, name: web, uid: u1, controller: true, blockOwnerDeletion: true}"
		owned  = "ownerReferences: [" + owner + "]"
		other  = "{apiVersion: v1, kind: ConfigMap, name: x, uid: x1}"
		itself = "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, name: old-name, uid: u1}"
	)
	tests := map[string]struct {
		manifests string
		want      string
	}{
		"nothing":       {"", ""},
		"only comments": {"# a\n---\n# b\n---\n", ""},
		"an object": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + owned + "}}",
		},
		"of the release's namespace": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, " + owned + "}}",
		},
		"of another namespace": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}",
		},
		"of no namespace": {
			"{apiVersion: v1, kind: ClusterRole, metadata: {name: a}}",
			"{apiVersion: v1, kind: ClusterRole, metadata: {name: a}}",
		},
		"to be kept": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {helm.sh/resource-policy: keep}}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {helm.sh/resource-policy: keep}}}",
		},
		"of another policy": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {helm.sh/resource-policy: other}}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {helm.sh/resource-policy: other}, " + owned + "}}",
		},
		"of a kind that does not exist": {
			"{apiVersion: v1, kind: Unknown, metadata: {name: a}}",
			"{apiVersion: v1, kind: Unknown, metadata: {name: a}}",
		},
		"with another owner": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: [" + other + "]}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: [" + other + ", " + owner + "]}}",
		},
		"owned already": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: [" + itself + ", " + other + "]}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: [" + other + ", " + owner + "]}}",
		},
		"a List": {
			"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {apiVersion: v1, kind: ClusterRole, metadata: {name: b}}]}",
			"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + owned + "}}, {apiVersion: v1, kind: ClusterRole, metadata: {name: b}}]}",
		},
		"a typed List": {
			"{apiVersion: v1, kind: ConfigMapList, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}",
			"{apiVersion: v1, kind: ConfigMapList, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + owned + "}}]}",
		},
		"several documents, comments, CRLF": {
			"# Source: a\r\napiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: a\r\n---\r\n# nothing\r\n---\r\n# Source: b\r\napiVersion: v1\r\nkind: ConfigMap\r\nmetadata: # here\r\n  name: b\r\n",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + owned + "}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b, " + owned + "}}",
		},
		"JSON": {
			`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "1"}}`,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + owned + "}, data: {key: \"1\"}}",
		},
		"text that looks like something else": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  doc: |\n    ---\n    a: b\n  version: \"1.10\"\n  answer: \"yes\"\n",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + owned + "}, data: {doc: \"---\\na: b\\n\", version: \"1.10\", answer: \"yes\"}}",
		},
		"the annotation that Helm finds files by": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {postrenderer.helm.sh/postrender-filename: t/a.yaml}}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {postrenderer.helm.sh/postrender-filename: t/a.yaml}, " + owned + "}}",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := postRender(tc.manifests)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(documents(t, tc.want), documents(t, got)); diff != "" {
				t.Errorf("rendered (-want +got):\n%s", diff)
			}
			again, err := postRender(got)
			if err != nil || again != got {
				t.Errorf("rendering twice gives %v (-once +twice):\n%s", err, cmp.Diff(got, again))
			}
		})
	}
	wrong := map[string]string{
		"not YAML":            "a: b: c",
		"not an object":       "- a\n- b\n",
		"discovery is broken": "{apiVersion: v1, kind: Unlucky, metadata: {name: a}}",
		"a List of text":      "{apiVersion: v1, kind: List, items: [text]}",
	}
	for name, manifests := range wrong {
		t.Run(name, func(t *testing.T) {
			if got, err := postRender(manifests); err == nil {
				t.Errorf("rendered %q, want an error", got)
			}
		})
	}
}

// TestOwnerReferencesLargeNumbers: numbers must not lose digits when a document is rewritten.
func TestOwnerReferencesLargeNumbers(t *testing.T) {
	const manifest = "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: a\nspec:\n  big: 9007199254740993\n  small: 0.1\n"
	got, err := postRender(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"big: 9007199254740993", "small: 0.1"} {
		if !strings.Contains(got, want) {
			t.Errorf("rendered lacks %q:\n%s", want, got)
		}
	}
}

// TestInsertMetadata: a document is written anew only where its form leaves doubt.
func TestInsertMetadata(t *testing.T) {
	const fields = "ownerReferences:\n- uid: u1\n"
	tests := map[string]struct{ text, want string }{
		"as charts write it": {
			"# Source: a\napiVersion: v1\nmetadata:\n  name: a # It is a.\nkind: ConfigMap\n",
			"# Source: a\napiVersion: v1\nmetadata:\n  ownerReferences:\n  - uid: u1\n  name: a # It is a.\nkind: ConfigMap\n",
		},
		"four spaces": {"a: b\nmetadata:\n    name: a\n", "a: b\nmetadata:\n    ownerReferences:\n    - uid: u1\n    name: a\n"},
		"metadata of something inside": {
			"metadata:\n  name: a\nspec:\n  metadata:\n    name: b\n",
			"metadata:\n  ownerReferences:\n  - uid: u1\n  name: a\nspec:\n  metadata:\n    name: b\n",
		},
		"no metadata":           {"a: b\n", ""},
		"in one line":           {"a: b\nmetadata: {name: a}\n", ""},
		"a comment behind":      {"metadata: # here\n  name: a\n", ""},
		"a comment below":       {"metadata:\n  # here\n  name: a\n", ""},
		"an anchor":             {"metadata:\n  &a\n  name: a\n", ""},
		"nothing in it":         {"metadata:\nkind: ConfigMap\n", ""},
		"nothing after it":      {"metadata:\n", ""},
		"twice":                 {"metadata:\n  name: a\nmetadata:\n  name: b\n", ""},
		"flow, over lines":      {"{a: {\nmetadata:\n  name\n}}\n", ""},
		"flow, inside":          {"metadata: {name: a}\nspec: {\nmetadata:\n  name}\n", ""},
		"in quotes, over lines": {"a: \"\nmetadata:\n  name: a\"\n", ""},
		"values in quotes before it": {
			"apiVersion: \"v1\"\nkind: 'A'\nspec: {a: [\"b\"]}\nmetadata:\n  name: a\n",
			"apiVersion: \"v1\"\nkind: 'A'\nspec: {a: [\"b\"]}\nmetadata:\n  ownerReferences:\n  - uid: u1\n  name: a\n",
		},
		"a flow before it":        {"spec: {\nmetadata:\n  name: a}\n", ""},
		"text in place of a key":  {"metadata:\n  name\n", ""},
		"indented as a whole":     {"  a: b\n  metadata:\n    name: a\n", ""},
		"CRLF":                    {"metadata:\r\n  name: a\r\n", ""},
		"JSON":                    {"{\"metadata\": {\"name\": \"a\"}}\n", ""},
		"keys that begin alike":   {"metadata:\n  name: a\nmetadata:x: b\n", ""},
		"keys that are in quotes": {"\"metadata\":\n  name: a\n", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := insertMetadata([]byte(tc.text), []byte(fields))
			if ok != (tc.want != "") || string(got) != tc.want {
				t.Errorf("got (%t)\n%s\nwant\n%s", ok, got, tc.want)
			}
		})
	}
}

func TestRenewOwner(t *testing.T) {
	const old = "  ownerReferences:\n  - apiVersion: demo.example.com/v1alpha1\n    controller: true\n    kind: DemoApp\n    name: web\n    uid: gone\n"
	owner := testOwners().Owner
	owners := &Owners{Owner: owner, Namespace: "default", Renewed: true, Namespaced: func(kind schema.GroupVersionKind) (bool, error) {
		return kind.Kind != "ClusterRole", nil
	}}
	kept := "---\n# Source: web/templates/role.yaml\napiVersion: v1\nkind: ClusterRole # As it was.\nmetadata:\n  name: web\n"
	manifest := "---\n# Source: web/templates/a.yaml\n" + "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: \"1\"\n" + kept
	manifest = strings.Replace(manifest, "  name: a\n", "  name: a\n"+old, 1)
	renew := func(manifest string) (string, error) {
		documents, err := Parse(manifest)
		if err != nil {
			return "", err
		}
		written, _, err := owners.Write(manifest, documents)
		return written, err
	}
	got, err := renew(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "---\n# Source: web/templates/a.yaml\napiVersion: v1\n") || !strings.HasSuffix(got, kept) || strings.Contains(got, "gone") {
		t.Errorf("the manifest is\n%s", got)
	}
	again, err := renew(got)
	if err != nil || again != got {
		t.Errorf("renewed again (%v), it is\n%s", err, again)
	}
	references := documents(t, got)[0]["metadata"].(map[string]any)["ownerReferences"].([]any)
	uids := []types.UID{}
	for _, reference := range references {
		uids = append(uids, types.UID(reference.(map[string]any)["uid"].(string)))
	}
	if !slices.Equal(uids, []types.UID{owner.UID}) {
		t.Errorf("the owners are %s", uids)
	}
}
