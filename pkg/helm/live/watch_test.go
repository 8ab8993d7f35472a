// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// object reads an object as the API server returns it.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestOf: the watch caches only the fields that show drift, ownership and health.
func TestOf(t *testing.T) {
	whole := object(t, `
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
  uid: a
  resourceVersion: "7"
  generation: 3
  labels: {app.kubernetes.io/managed-by: Helm, app: web}
  annotations:
    meta.helm.sh/release-name: rel
    meta.helm.sh/release-namespace: space
    helm.sh/resource-policy: keep
    note: long
  managedFields:
    - {manager: helm, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}
spec: {type: LoadBalancer}
`)
	want := metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "a", ResourceVersion: "7", Generation: 3,
	}
	got := Of(whole)
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if got.Trace.Fingerprint == "" || got.Trace.Fingerprint != ssa.Fingerprint(whole.GetManagedFields(), manifest.FieldManager) {
		t.Errorf("digest = %q", got.Trace.Fingerprint)
	}
	if got.Health.Status != status.InProgressStatus {
		t.Errorf("health = %+v, want the load balancer to be waited for", got.Health)
	}
	if want := (cache.ObjectName{Namespace: "space", Name: "rel"}); got.Release != want || !got.Kept || got.Manager != manifest.ManagedByHelm {
		t.Errorf("release = %s, kept = %t, manager = %q, want %s, to be kept, of Helm", got.Release, got.Kept, got.Manager, want)
	}

	bare := Of(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	if bare.Release.Name != "" || bare.Kept || bare.Trace.Fingerprint != "" || bare.Health.Status != status.CurrentStatus {
		t.Errorf("an object of nobody is observed as %+v", bare)
	}
}

// TestManagedFields: the input of fingerprints is the same in both forms of an object, whatever
// fields other clients own.
func TestManagedFields(t *testing.T) {
	whole := object(t, `
apiVersion: v1
kind: Service
metadata:
  name: web
  managedFields:
    - {manager: kubectl, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:ports": {}}}}
    - {manager: helm, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {".": {}, "f:type": {}, "f:ports": {'k:{"port":80}': {}}}}}
    - {manager: helm, operation: Apply, subresource: status, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:status": {}}}
    - {manager: bare, operation: Update}
`)
	slow, fast := whole.GetManagedFields(), ssa.ManagedFields(whole)
	if got, want := ssa.Fingerprint(fast, manifest.FieldManager), ssa.Fingerprint(slow, manifest.FieldManager); got != want || got == "" {
		t.Errorf("fingerprint is %q, want %q", got, want)
	}
	if got, want := fields.Digest(fast), fields.Digest(slow); got != want || got == "" {
		t.Errorf("digest of the fields of others is %q, want %q", got, want)
	}
	if got := ssa.ManagedFields(object(t, "{apiVersion: v1, kind: Service, metadata: {name: web}}")); len(got) > 0 {
		t.Errorf("fields of an object that has none: %v", got)
	}
}

// TestManagedFieldsInServerOrder: an object that came as JSON has the digests of the
// same one as protobuf, which keeps the API server's bytes.
func TestManagedFieldsInServerOrder(t *testing.T) {
	const ports = `{"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}},"k:{\"port\":443,\"protocol\":\"TCP\"}":{}}}}`
	typed := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for _, manager := range []string{manifest.FieldManager, "other"} {
		entry := metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
		}
		entry.FieldsV1.SetRawBytes([]byte(ports))
		typed.ManagedFields = append(typed.ManagedFields, entry)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	got, want := Of(&unstructured.Unstructured{Object: content}), Of(typed)
	if got.Trace.Fingerprint != want.Trace.Fingerprint || got.Trace.Fingerprint == "" {
		t.Errorf("digest is %q, want %q", got.Trace.Fingerprint, want.Trace.Fingerprint)
	}
	if got.Foreign != want.Foreign || got.Foreign == "" {
		t.Errorf("digest of the fields of others is %q, want %q", got.Foreign, want.Foreign)
	}
}

func TestTransform(t *testing.T) {
	var w Watcher
	first, err := w.transform(object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"))
	if err != nil {
		t.Fatal(err)
	}
	// Informers also transform objects from their own store.
	again, err := w.transform(first)
	if err != nil || again != first {
		t.Errorf("transform of an observed object = %v, %v", again, err)
	}
	if _, err := w.transform("no object"); err == nil {
		t.Error("transform took a string for an object")
	}
}
