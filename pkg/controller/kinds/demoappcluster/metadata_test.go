// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

// TestSetMetadata: labels and annotations of other clients stay.
func TestSetMetadata(t *testing.T) {
	clientset := kubefake.NewClientset()
	controllertest.Stamp(clientset)
	client := clientset.CoreV1().ConfigMaps("ns")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	object.Labels = map[string]string{"old": "1", "kept": "1"}
	object.Annotations = map[string]string{"old": "1"}
	_, err := client.Create(t.Context(), object, metav1.CreateOptions{FieldManager: fieldManager})
	expect.NoError(t, err)
	object, err = client.Get(t.Context(), "a", metav1.GetOptions{})
	expect.NoError(t, err)
	object.Labels["theirs"] = "1"
	_, err = client.Update(t.Context(), object, metav1.UpdateOptions{FieldManager: "theirs"})
	expect.NoError(t, err)
	object, err = client.Get(t.Context(), "a", metav1.GetOptions{})
	expect.NoError(t, err)
	desired := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kept": "2", "new": "1"}}}
	if child.HasMetadata(object, desired) {
		t.Error("has it before")
	}
	expect.NoError(t, setMetadata(object, desired, fieldManager))
	expect.Equal(t, "labels", map[string]string{"kept": "2", "new": "1", "theirs": "1"}, object.Labels)
	expect.Equal(t, "annotations", map[string]string{}, object.Annotations)
	if !child.HasMetadata(object, desired) {
		t.Error("does not have it after")
	}
}
