// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const shared = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {ours: a, theirs: b}
  finalizers: [theirs.example.com/finalizer]
  managedFields:
  - manager: helm
    operation: Apply
    apiVersion: apps/v1
    fieldsType: FieldsV1
    fieldsV1: {"f:metadata": {"f:labels": {"f:ours": {}}}, "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}}
  - manager: kubectl-patch
    operation: Update
    apiVersion: apps/v1
    fieldsType: FieldsV1
    fieldsV1: {"f:metadata": {"f:labels": {"f:theirs": {}}, "f:finalizers": {".": {}, "v:\"theirs.example.com/finalizer\"": {}}, "f:annotations": {"f:shared": {}}}, "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"extra\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}}
  - manager: kube-controller-manager
    operation: Update
    apiVersion: apps/v1
    fieldsType: FieldsV1
    fieldsV1: {"f:metadata": {"f:annotations": {"f:shared": {}}}}
  - manager: kubectl-scale
    operation: Update
    apiVersion: apps/v1
    subresource: scale
    fieldsType: FieldsV1
    fieldsV1: {"f:spec": {"f:minReadySeconds": {}}}
  annotations: {shared: c}
spec:
  replicas: 1
  minReadySeconds: 5
  template:
    spec:
      containers:
      - {name: web, image: "web:1"}
      - {name: extra, image: "extra:1"}
`

func TestForeignFields(t *testing.T) {
	live := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(shared), &live.Object); err != nil {
		t.Fatal(err)
	}
	fields, err := Foreign(live)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, path := range Paths(fields) {
		paths = append(paths, path.String())
	}
	containers := `.spec.template.spec.containers[name="extra"]`
	if diff := cmp.Diff([]string{".metadata.labels.theirs", containers, containers + ".image", containers + ".name"}, paths); diff != "" {
		t.Errorf("foreign fields (-want +got):\n%s", diff)
	}
	left, err := Without(live, fields)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"ours": "a"}, left.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"theirs.example.com/finalizer"}, left.GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"shared": "c"}, left.GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	kept, _, err := unstructured.NestedSlice(left.Object, "spec", "template", "spec", "containers")
	if err != nil || len(kept) != 1 {
		t.Errorf("containers are %v, %v", kept, err)
	}
}

// TestForeignFieldsOfUnknownKinds: without a schema, entries of maps are separate fields, and a
// list is one field.
func TestForeignFieldsOfUnknownKinds(t *testing.T) {
	live := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: example.com/v1
kind: Thing
metadata:
  name: web
  managedFields:
  - {manager: helm, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:ours": {}}}}
  - {manager: somebody, operation: Update, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:theirs": {"f:deep": {}}}}}
spec: {ours: 1, theirs: {deep: [1, 2]}}
`), &live.Object); err != nil {
		t.Fatal(err)
	}
	fields, err := Foreign(live)
	if err != nil {
		t.Fatal(err)
	}
	left, err := Without(live, fields)
	if err != nil {
		t.Fatal(err)
	}
	if _, there, err := unstructured.NestedFieldNoCopy(left.Object, "spec", "theirs", "deep"); there || err != nil {
		t.Errorf("left is %v, %v", left.Object, err)
	}
	if _, there, err := unstructured.NestedFieldNoCopy(left.Object, "spec", "ours"); !there || err != nil {
		t.Errorf("left is %v, %v", left.Object, err)
	}
}

// TestForeignFieldsOfCRD: client-go has no schema of CustomResourceDefinitions, although the scheme has the
// kind.
func TestForeignFieldsOfCRD(t *testing.T) {
	if err := apiextensionsv1.AddToScheme(scheme.Scheme); err != nil { // As Helm does.
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
  labels: {theirs: a, ours: b}
  managedFields:
  - {manager: helm, operation: Apply, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:ours": {}}}}}
  - {manager: helm-operator, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:ours": {}, "f:theirs": {}}}}}
spec: {group: example.com}
`), &live.Object); err != nil {
		t.Fatal(err)
	}

	after, err := AfterTakeover(live, live, sets.New("helm-operator"))
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(map[string]string{"ours": "b"}, after.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// created is an object that another client created, and that the engine then applied. The other client
// owns maps and items as such, in which the engine owns fields.
const created = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
  annotations: {theirs: a}
  managedFields:
  - manager: helm
    operation: Apply
    apiVersion: apps/v1
    fieldsType: FieldsV1
    fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:selector": {}, "f:template": {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:image": {}}}}}}}
  - manager: Go-http-client
    operation: Update
    apiVersion: apps/v1
    fieldsType: FieldsV1
    fieldsV1: {"f:metadata": {"f:annotations": {".": {}, "f:theirs": {}}, "f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:selector": {}, "f:template": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:dnsPolicy": {}, "f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}, "f:env": {".": {}, "k:{\"name\":\"X\"}": {".": {}, "f:name": {}, "f:value": {}}}}}}}}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      dnsPolicy: ClusterFirst
      containers: [{name: web, image: "web:1", env: [{name: X, value: "1"}]}]
`

// TestFieldsInMapsOfOthers keeps the fields of the engine in maps and items that another client created.
func TestFieldsInMapsOfOthers(t *testing.T) {
	live := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(created), &live.Object); err != nil {
		t.Fatal(err)
	}
	foreign, err := Foreign(live)
	if err != nil {
		t.Fatal(err)
	}

	left, err := Without(live, foreign)
	if err != nil {
		t.Fatal(err)
	}

	for _, fields := range [][]string{{"metadata", "labels", "app"}, {"spec", "selector"}, {"spec", "template", "metadata", "labels", "app"}} {
		if _, found, err := unstructured.NestedFieldNoCopy(left.Object, fields...); !found || err != nil {
			t.Errorf("%v is gone from %v: %v", fields, left.Object, err)
		}
	}
	containers, _, _ := unstructured.NestedSlice(left.Object, "spec", "template", "spec", "containers")
	if len(containers) != 1 || left.GetAnnotations()["theirs"] != "" {
		t.Errorf("containers %v, annotations %v", containers, left.GetAnnotations())
	}
	container, _ := containers[0].(map[string]any)
	if container["image"] != "web:1" || container["env"] != nil {
		t.Errorf("the container is %v", container)
	}
}
