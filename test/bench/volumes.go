// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// provisionVolumes creates a volume for each claim until the end of ctx, because the control plane has no provisioner.
func provisionVolumes(ctx context.Context, client kubernetes.Interface) error {
	volumes := client.CoreV1().PersistentVolumes()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().PersistentVolumeClaims().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			claim, ok := object.(*corev1.PersistentVolumeClaim)
			if !ok {
				return
			}
			_, err := volumes.Create(ctx, volumeFor(claim), metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				log.Printf("create a volume for the claim %s/%s: %v", claim.Namespace, claim.Name, err)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			claim, ok := object.(*corev1.PersistentVolumeClaim)
			if !ok {
				return
			}
			err := volumes.Delete(ctx, volumeFor(claim).Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				log.Printf("delete the volume of the claim %s/%s: %v", claim.Namespace, claim.Name, err)
			}
		},
	}); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	return factory.WaitForCacheSyncWithContext(ctx).AsError()
}

// volumeFor returns a volume that only the claim can use. No pod ever reads it, because nodes are simulated.
func volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/bench"}},
			ClaimRef:                      &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
	}
	if claim.Spec.StorageClassName != nil {
		volume.Spec.StorageClassName = *claim.Spec.StorageClassName
	}
	return volume
}
