// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

const manager = "ours"

var owner = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "owner-uid"}}

func newMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{Reference(owner, "v1", "Secret")},
	}}
}

func get(t *testing.T, client corev1client.ConfigMapInterface, name string) *corev1.ConfigMap {
	t.Helper()
	object, err := client.Get(t.Context(), name, metav1.GetOptions{})
	expect.NoError(t, err)
	return object
}

func TestMetadata(t *testing.T) {
	clientset := kubefake.NewClientset()
	controllertest.Stamp(clientset)
	client := clientset.CoreV1().ConfigMaps("ns")
	object := newMap("a")
	object.Labels = map[string]string{"old": "1", "kept": "1"}
	object.Annotations = map[string]string{"old": "1"}
	_, err := client.Create(t.Context(), object, metav1.CreateOptions{FieldManager: manager})
	expect.NoError(t, err)
	object = get(t, client, "a")
	object.Labels["theirs"] = "1"
	_, err = client.Update(t.Context(), object, metav1.UpdateOptions{FieldManager: "theirs"})
	expect.NoError(t, err)
	object = get(t, client, "a")
	desired := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kept": "2", "new": "1"}}}
	if HasMetadata(object, desired) {
		t.Error("has it before")
	}
	expect.NoError(t, Metadata(object, desired, manager))
	expect.Equal(t, "labels", map[string]string{"kept": "2", "new": "1", "theirs": "1"}, object.Labels)
	expect.Equal(t, "annotations", map[string]string{}, object.Annotations)
	if !HasMetadata(object, desired) {
		t.Error("does not have it after")
	}
}
