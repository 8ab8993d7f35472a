// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

// differ returns a Differ over the records of "web", the ConfigMap "base" and the Secret "private".
func differ(t *testing.T, functions inspect.KindFunctions, records ...recorded) inspect.Differ {
	t.Helper()
	kube := kubefake.NewClientset()
	for _, r := range records {
		expect.NoError(t, kube.Tracker().Add(r.secret(t)))
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	expect.NoError(t, kube.Tracker().Add(&corev1.ConfigMap{ObjectMeta: meta("base"), Data: map[string]string{"values.yaml": "tier: one\nlogs: {level: info}\n"}}))
	expect.NoError(t, kube.Tracker().Add(&corev1.Secret{ObjectMeta: meta("private"), Data: map[string][]byte{"values.yaml": []byte("db: {user: admin}\n")}}))
	return inspect.Differ{Cluster: inspect.New(inspect.Clients{Kubernetes: kube}, operatorLease), Functions: functions}
}

// withFields are the functions of a kind with the field spec.message.
var withFields = inspect.KindFunctions{
	Fields: func(object *unstructured.Unstructured, _ inspect.FieldsInput) (inspect.Fields, error) {
		message, _, err := unstructured.NestedString(object.Object, "spec", "message")
		return inspect.Fields{Values: map[string]any{"message": message, "key": "abc"}, Secret: [][]string{{"key"}}, Sources: map[string]string{"key": "spec.keyFrom"}}, err
	},
	Restore: func(object *unstructured.Unstructured, recorded map[string]any) ([]string, error) {
		message, _, _ := unstructured.NestedString(recorded, "message")
		return []string{"key is not restored"}, unstructured.SetNestedField(object.Object, message, "spec", "message")
	},
}

// generation are the labels of a revision of a generation of the spec.
func generation(revision, number int) map[string]string {
	labels := ours(revision)
	labels[record.OwnerGenerationLabel] = fmt.Sprint(number)
	return labels
}

const withReferences = `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: web, uid: app, generation: 2}
spec:
  message: hi
  valuesFrom: [{kind: ConfigMap, name: base}, {kind: Secret, name: private}, {kind: Secret, name: none, optional: true}]
  values: {logs: {level: debug}, tags: [a]}
`

const specIsValues = `
apiVersion: cache.my.domain/v1
kind: Memcached
metadata: {name: web, uid: app, generation: 2}
spec: {message: b, size: 1000000}
`

func TestValues(t *testing.T) {
	tests := []struct {
		name      string
		functions inspect.KindFunctions
		owner     string
		records   []recorded
		show      bool
		want      string
		note      string
	}{
		{
			name: "fields, references and defaults", functions: withFields, owner: withReferences,
			records: []recorded{{revision: 1, status: "deployed", labels: generation(1, 2)}},
			want: `
db.user=*** from spec.valuesFrom[1] Secret/private[values.yaml]
key=*** from spec.keyFrom
logs.level=debug from spec.values
message=hi from spec.message
replicaCount=1 from chart default
tags=[a] from spec.values
tier=one from spec.valuesFrom[0] ConfigMap/base[values.yaml]
`,
		},
		{
			name: "secrets are shown", functions: withFields, owner: withReferences, show: true,
			records: []recorded{{revision: 1, status: "deployed", labels: generation(1, 2)}},
			want: `
db.user=admin from spec.valuesFrom[1] Secret/private[values.yaml]
key=abc from spec.keyFrom
logs.level=debug from spec.values
message=hi from spec.message
replicaCount=1 from chart default
tags=[a] from spec.values
tier=one from spec.valuesFrom[0] ConfigMap/base[values.yaml]
`,
		},
		{
			name: "the spec with overrides of the operator", owner: specIsValues,
			records: []recorded{{revision: 1, status: "deployed", labels: generation(1, 2), values: map[string]any{"message": "b", "size": 1000000, "proxy": "x"}}},
			want: `
message=b from spec.message
proxy=*** from overrideValues of watches.yaml
replicaCount=1 from chart default
size=1000000 from spec.size
`,
		},
		{
			name: "no record", owner: specIsValues, note: "no recorded revision",
			want: "\nmessage=b from spec.message\nsize=1000000 from spec.size\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := differ(t, test.functions, test.records...)
			d.Mask.Show = test.show
			found, note, err := d.Values(t.Context(), objectOf(t, test.owner))
			expect.NoError(t, err)
			got := "\n"
			for _, value := range found {
				got += fmt.Sprintf("%s=%v from %s\n", value.Path, value.Value, value.Source)
			}
			expect.Equal(t, "values", test.want, got)
			expect.Equal(t, "whether there is a note", test.note != "", note != nil)
			expect.Contains(t, "note", fmt.Sprint(note), test.note)
		})
	}
}

func TestRestore(t *testing.T) {
	old := map[string]any{"message": "a", "logs": map[string]any{"level": "warn"}, "db": map[string]any{"user": "admin"}, "tier": "one", "license": "xyz"}
	tests := []struct {
		name      string
		functions inspect.KindFunctions
		owner     string
		records   []recorded
		want      map[string]any
		notes     string
		err       string
	}{
		{
			name: "fields and values of the spec", functions: withFields, owner: withReferences, records: []recorded{{revision: 1, status: "superseded", values: old}},
			want: map[string]any{
				"message": "a", "values": map[string]any{"logs": map[string]any{"level": "warn"}},
				"valuesFrom": objectOf(t, withReferences).Object["spec"].(map[string]any)["valuesFrom"],
			},
			notes: "key is not restored\nvalue license is not restored: the record does not tell whether it was in spec.values, a ConfigMap or a Secret",
		},
		{
			name: "overrides of the operator do not get into the spec", owner: specIsValues,
			records: []recorded{
				{revision: 1, status: "superseded", labels: generation(1, 1), values: map[string]any{"message": "a", "proxy": "x"}},
				{revision: 2, status: "deployed", labels: generation(2, 2), values: map[string]any{"message": "b", "size": 1000000, "proxy": "x"}},
			},
			want: map[string]any{"message": "a"},
		},
		{
			name: "unknown overrides", owner: specIsValues, err: "its overrides are unknown",
			records: []recorded{{revision: 1, status: "deployed", labels: generation(1, 1), values: old}},
		},
		{
			name: "values from a template", owner: specIsValues, err: "from a template or a function",
			records: []recorded{{revision: 1, status: "deployed", labels: generation(1, 2), values: old}},
		},
		{name: "no release", functions: inspect.KindFunctions{Children: children}, owner: specIsValues, err: "has no release"},
		{name: "no record", owner: specIsValues, err: "has no release"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			restored, err := differ(t, test.functions, test.records...).Restore(t.Context(), objectOf(t, test.owner), 1)
			if test.err != "" {
				expect.Contains(t, "error", fmt.Sprint(err), test.err)
				return
			}
			expect.NoError(t, err)
			expect.Equal(t, "spec", any(test.want), restored.Owner.Object["spec"])
			expect.Equal(t, "notes", test.notes, strings.Join(restored.Notes, "\n"))
		})
	}
}

// children are the functions of a plain kind that must not be asked.
func children(*unstructured.Unstructured, inspect.ChildrenInput) ([]child.Rendered, error) {
	return nil, errors.New("the children are not needed")
}

func TestGitOpsOwner(t *testing.T) {
	tests := []struct{ name, fields, want string }{
		{"a GitOps tool owns the spec", "{manager: argocd-controller, operation: Apply, fieldsV1: {f:spec: {}}}", "argocd-controller"},
		{"a GitOps tool owns labels alone", "{manager: argocd-controller, operation: Apply, fieldsV1: {f:metadata: {}}}", ""},
		{"a person", "{manager: kubectl-edit, operation: Update, fieldsV1: {f:spec: {}}}", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := objectOf(t, "{apiVersion: v1, kind: Object, metadata: {name: web, managedFields: ["+test.fields+"]}}")
			expect.Equal(t, "owner", test.want, inspect.GitOpsOwner(object))
		})
	}
}
