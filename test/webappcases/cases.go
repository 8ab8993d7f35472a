// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webappcases

import (
	_ "embed" // The cases are embedded.
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
)

//go:embed cases.yaml
var file []byte

// Registries are the approved registries of all cases, as values of --approved-registries.
var Registries = []string{"docker.io/library", "Registry.Example.com/team"}

// Kind is a kind of namespace.
type Kind string

// The kinds of namespaces.
const (
	Ordinary Kind = "ordinary"
	Labeled  Kind = "labeled"
	Named    Kind = "named"
	System   Kind = "system"
)

// Namespaces are the namespaces of the cases, by kind.
var Namespaces = map[Kind]string{
	Ordinary: "webapps-ordinary", Labeled: "webapps-labeled", Named: "production", System: "kube-system",
}

// NamespaceLabels are the labels of a kind of namespace.
func NamespaceLabels(kind Kind) map[string]string {
	if kind == Labeled {
		return map[string]string{"environment": "production"}
	}
	return nil
}

// Production reports whether namespaces of a kind are production namespaces.
func Production(kind Kind) bool { return kind == Labeled || kind == Named }

// Case is a request and its result.
type Case struct {
	Name      string `json:"name"`
	Namespace Kind   `json:"namespace"`
	State     `json:",inline"`
	// Before is the WebApp that an update changes; nil for a creation.
	Before *State `json:"before"`
	// Denied is a part of the message of a refusal; empty if the request is allowed.
	Denied string `json:"denied"`
	// Result is the stored form of an allowed WebApp.
	Result Result `json:"result"`

	index int
}

// State is the part of a WebApp that a case gives.
type State struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Finalizers  []string          `json:"finalizers"`
	// Deleting says that the WebApp has been deleted and waits for its finalizers.
	Deleting bool           `json:"deleting"`
	Spec     map[string]any `json:"spec"`
}

// Result is the part of a stored WebApp that the cases compare.
type Result struct {
	Labels          map[string]string `json:"labels"`
	SecurityContext map[string]any    `json:"securityContext"`
}

// Load returns all cases.
func Load(t testing.TB) []Case {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []Case
	// This package decodes whole numbers as int64, as the API server does.
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		c.index = i
		c.Spec = integers(c.Spec)
		c.Result.SecurityContext = integers(c.Result.SecurityContext)
		if c.Before != nil {
			c.Before.Spec = integers(c.Before.Spec)
		}
		if names[c.Name] || Namespaces[c.Namespace] == "" {
			t.Fatalf("case %q has a name that is not unique or an unknown namespace", c.Name)
		}
		names[c.Name] = true
	}
	return cases
}

// integers turns whole numbers into int64.
func integers(object map[string]any) map[string]any {
	for key, value := range object {
		switch v := value.(type) {
		case map[string]any:
			object[key] = integers(v)
		case float64:
			if v == float64(int64(v)) {
				object[key] = int64(v)
			}
		}
	}
	return object
}

// Object returns the WebApp of the request.
func (c Case) Object() *unstructured.Unstructured { return c.build(c.State) }

// Old returns the WebApp before an update, or nil for a creation.
func (c Case) Old() *unstructured.Unstructured {
	if c.Before == nil {
		return nil
	}
	return c.build(*c.Before)
}

func (c Case) build(state State) *unstructured.Unstructured {
	spec := map[string]any{"replicas": int64(1), "image": "nginx:1.27-alpine"}
	maps.Copy(spec, state.Spec)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object = object.DeepCopy()
	object.SetGroupVersionKind(examplev1.SchemeGroupVersion.WithKind("WebApp"))
	object.SetNamespace(Namespaces[c.Namespace])
	object.SetName(fmt.Sprintf("case-%d", c.index))
	if len(state.Labels) > 0 {
		object.SetLabels(state.Labels)
	}
	if len(state.Annotations) > 0 {
		object.SetAnnotations(state.Annotations)
	}
	object.SetFinalizers(state.Finalizers)
	return object
}

// ResultOf returns the part of a WebApp that the cases compare.
func ResultOf(t testing.TB, object *unstructured.Unstructured) Result {
	t.Helper()
	security, _, err := unstructured.NestedMap(object.Object, "spec", "securityContext")
	if err != nil {
		t.Fatal(err)
	}
	return Result{Labels: object.GetLabels(), SecurityContext: security}
}
