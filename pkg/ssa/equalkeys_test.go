// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return object
}

// deployment returns a Deployment whose pods have the given fields, in YAML.
func deployment(pod string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: " + pod + "}}}"
}

func container(fields string) string {
	return deployment("{containers: [{name: web, " + fields + "}]}")
}

const inContainer = "spec.template.spec.containers[web]."

func TestEqualKeys(t *testing.T) {
	tests := map[string]struct {
		object, want string
		notes, errs  []string
	}{
		"no equal keys": {
			object: container("env: [{name: A, value: x}, {name: B, value: x}]"),
			want:   container("env: [{name: A, value: x}, {name: B, value: x}]"),
		},
		"env: the last one counts, at its place": {
			object: container("env: [{name: A, value: '1'}, {name: B, value: '2'}, {name: A, value: '3'}, {name: C, value: $(A)}]"),
			want:   container("env: [{name: B, value: '2'}, {name: A, value: '3'}, {name: C, value: $(A)}]"),
			notes:  []string{inContainer + `env: 2 items have the key "A", and only the last one counts`},
		},
		"env: three times, with a reference to a Secret in the end": {
			object: container("env: [{name: A, value: '1'}, {name: A}, {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
			want:   container("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
			notes:  []string{inContainer + `env: 3 items have the key "A", and only the last one counts`},
		},
		"env: a variable in between uses the first one": {
			object: container("env: [{name: A, value: '1'}, {name: B, value: x$(A)}, {name: A, value: '3'}]"),
			want:   container("env: [{name: A, value: '1'}, {name: B, value: x$(A)}, {name: A, value: '3'}]"),
			errs: []string{inContainer + `env: 2 items have the key "A": the value of B refers to $(A) before the last of them, ` +
				`and server-side apply keeps one item for each key: give them different names`},
		},
		"env: the last one extends the first one": {
			object: container("env: [{name: A, value: '1'}, {name: A, value: $(A):2}]"),
			want:   container("env: [{name: A, value: '1'}, {name: A, value: $(A):2}]"),
			errs: []string{inContainer + `env: 2 items have the key "A": the value of A refers to $(A) before the last of them, ` +
				`and server-side apply keeps one item for each key: give them different names`},
		},
		"env: an escaped reference is a text": {
			object: container("env: [{name: A, value: '1'}, {name: A, value: $$(A)}]"),
			want:   container("env: [{name: A, value: $$(A)}]"),
			notes:  []string{inContainer + `env: 2 items have the key "A", and only the last one counts`},
		},
		"env: the last one is optional": {
			object: container("env: [{name: A, value: '1'}, {name: A, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}]"),
			want:   container("env: [{name: A, value: '1'}, {name: A, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}]"),
			errs: []string{inContainer + `env: 2 items have the key "A": the last of them is optional, so an earlier one may count, ` +
				`and server-side apply keeps one item for each key: give them different names`},
		},
		"ports: equal, once with the default protocol": {
			object: container("ports: [{containerPort: 80, name: http, protocol: TCP}, {containerPort: 80}, {containerPort: 80, protocol: UDP}]"),
			want:   container("ports: [{containerPort: 80, name: http, protocol: TCP}, {containerPort: 80, protocol: UDP}]"),
			notes:  []string{inContainer + `ports: 2 items have the key "80/TCP", and count once`},
		},
		"ports: two names for one port": {
			object: container("ports: [{containerPort: 80, name: a}, {containerPort: 80, name: b}]"),
			want:   container("ports: [{containerPort: 80, name: a}, {containerPort: 80, name: b}]"),
			errs: []string{inContainer + `ports: 2 items have the key "80/TCP": they differ in name, ` +
				`and server-side apply keeps one item for each key: remove one of them`},
		},
		"pods: every list": {
			object: deployment(`{initContainers: [{name: i, env: [{name: A, value: x}, {name: A, value: "y"}]}],
				imagePullSecrets: [{name: a}, {name: b}, {name: a}],
				volumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}],
				hostAliases: [{ip: 10.0.0.1, hostnames: [a, b]}, {ip: 10.0.0.1, hostnames: [b, c]}],
				containers: [{name: web, volumeMounts: [{mountPath: /a, name: v}, {mountPath: /a, name: v}]}]}`),
			want: deployment(`{initContainers: [{name: i, env: [{name: A, value: "y"}]}],
				imagePullSecrets: [{name: b}, {name: a}],
				volumes: [{name: v, emptyDir: {}}],
				hostAliases: [{ip: 10.0.0.1, hostnames: [a, b, c]}],
				containers: [{name: web, volumeMounts: [{mountPath: /a, name: v}]}]}`),
			notes: []string{
				inContainer + `volumeMounts: 2 items have the key "/a", and count once`,
				`spec.template.spec.hostAliases: 2 items have the key "10.0.0.1", and their host names count together`,
				`spec.template.spec.imagePullSecrets: 2 items have the key "a", and count once`,
				`spec.template.spec.initContainers[i].env: 2 items have the key "A", and only the last one counts`,
				`spec.template.spec.volumes: 2 items have the key "v", and count once`,
			},
		},
		"volumes that differ": {
			object: deployment("{volumes: [{name: v, emptyDir: {}}, {name: v, configMap: {name: c}}]}"),
			want:   deployment("{volumes: [{name: v, emptyDir: {}}, {name: v, configMap: {name: c}}]}"),
			errs: []string{`spec.template.spec.volumes: 2 items have the key "v": they differ in configMap, emptyDir, ` +
				`and server-side apply keeps one item for each key: remove one of them`},
		},
		"a CronJob": {
			object: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {jobTemplate: {spec: {template: {spec: {containers: [
				{name: c, env: [{name: A, value: "1"}, {name: A, value: "2"}]}]}}}}}}`,
			want: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {jobTemplate: {spec: {template: {spec: {containers: [
				{name: c, env: [{name: A, value: "2"}]}]}}}}}}`,
			notes: []string{`spec.jobTemplate.spec.template.spec.containers[c].env: 2 items have the key "A", and only the last one counts`},
		},
		"ports of a Service": {
			object: "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80, targetPort: http}, {port: 80, targetPort: http}]}}",
			want:   "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80, targetPort: http}]}}",
			notes:  []string{`spec.ports: 2 items have the key "80/TCP", and count once`},
		},
		"a custom resource: only its metadata has known lists": {
			object: "{apiVersion: example.com/v1, kind: Database, metadata: {name: d, finalizers: [b, a, b]}, spec: {env: [{name: A}, {name: A}]}}",
			want:   "{apiVersion: example.com/v1, kind: Database, metadata: {name: d, finalizers: [a, b]}, spec: {env: [{name: A}, {name: A}]}}",
			notes:  []string{`metadata.finalizers: 2 items have the key "b", and count once`},
		},
		"lists without keys stay": {
			object: container("args: [-c, -c], envFrom: [{configMapRef: {name: a}}, {configMapRef: {name: a}}]"),
			want:   container("args: [-c, -c], envFrom: [{configMapRef: {name: a}}, {configMapRef: {name: a}}]"),
		},
		"values of a wrong type stay for the API server": {
			object: container("env: [{name: 1}, {name: 1}, x, x, {name: {}}], ports: {containerPort: 80}"),
			want:   container("env: [{name: 1}, x, x, {name: {}}], ports: {containerPort: 80}"),
			notes:  []string{inContainer + `env: 2 items have the key "1", and only the last one counts`},
		},
		"metadata that only the API server sets": {
			object: `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, uid: u, resourceVersion: "1", generation: 3, creationTimestamp: null,
				deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 1, selfLink: /s, managedFields: [], labels: {a: b}}}`,
			want: "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: b}}}",
			notes: []string{
				"metadata.deletionGracePeriodSeconds: only the API server sets this field, so it is left out",
				"metadata.deletionTimestamp: only the API server sets this field, so it is left out",
				"metadata.generation: only the API server sets this field, so it is left out",
				"metadata.managedFields: only the API server sets this field, so it is left out",
				"metadata.resourceVersion: only the API server sets this field, so it is left out",
				"metadata.selfLink: only the API server sets this field, so it is left out",
				"metadata.uid: only the API server sets this field, so it is left out",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := parse(t, test.object)

			notes, errs := Check(object)
			prepared := Prepare(object)

			var texts []string
			for _, err := range errs {
				texts = append(texts, err.Error())
			}
			if diff := cmp.Diff(test.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.errs, texts); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, test.want).Object, prepared.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, test.object).Object, object.Object); diff != "" {
				t.Errorf("the argument changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeyFields: each list with keys, outside of a status, has one of the fields that mayHaveEqualKeys reads.
func TestKeyFields(t *testing.T) {
	known, _, err := typeOf(parse(t, "{apiVersion: v1, kind: ConfigMap}"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	var visit func(name string, atom schema.Atom)
	visit = func(name string, atom schema.Atom) {
		if list := atom.List; list != nil {
			visit(name, list.ElementType.Inlined)
			if list.ElementRelationship == schema.Associative && len(list.Keys) > 0 {
				found := false
				for _, key := range list.Keys {
					found = found || slices.Contains(keyFields, key)
					used[key] = true
				}
				if !found {
					t.Errorf("%s has a list with the keys %v, and none of them is in keyFields", name, list.Keys)
				}
			}
		}
		if atom.Map != nil {
			for _, field := range atom.Map.Fields {
				visit(name+"."+field.Name, field.Type.Inlined)
			}
		}
	}
	for _, definition := range known.Schema().Types {
		if strings.HasSuffix(definition.Name, "Status") || strings.HasSuffix(definition.Name, ".PodVolumeHealth") {
			continue // Clients do not apply a status.
		}
		visit(definition.Name, definition.Atom)
	}
	for _, field := range keyFields {
		if !used[field] {
			t.Errorf("no list has the key %s of keyFields", field)
		}
	}
}
