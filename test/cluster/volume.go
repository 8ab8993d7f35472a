// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Volume creates a volume for a claim of a namespace, because the cluster has no provisioner. The
// end of the test deletes the volume.
func (c *Cluster) Volume(t testing.TB, namespace, claim, size string) {
	t.Helper()
	volumes := c.Client.CoreV1().PersistentVolumes()
	// A volume of the same claim in an earlier namespace of this name may still be in deletion.
	created, err := volumes.Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namespace + "-" + claim + "-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/simulated"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a volume: %v", err)
	}
	t.Cleanup(func() {
		if err := volumes.Delete(context.WithoutCancel(t.Context()), created.Name, metav1.DeleteOptions{}); err != nil {
			t.Logf("delete a volume: %v", err)
		}
	})
}
