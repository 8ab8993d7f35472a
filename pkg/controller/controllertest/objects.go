// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Get reads an object with a client's Get, as [World.Act] does.
func Get[T any](w *World, get func(context.Context, string, metav1.GetOptions) (T, error), name string) T {
	w.t.Helper()
	var found T
	w.Act(func() (err error) {
		found, err = get(context.Background(), name, metav1.GetOptions{})
		return err
	})
	return found
}

// Create creates an object with a client's Create, as [World.Act] does. Its field manager is
// "theirs".
func Create[T any](w *World, create func(context.Context, T, metav1.CreateOptions) (T, error), object T) {
	w.t.Helper()
	w.Act(func() error {
		_, err := create(context.Background(), object, metav1.CreateOptions{FieldManager: "theirs"})
		return err
	})
}

// Delete deletes an object with a client's Delete, as [World.Act] does.
func Delete(w *World, remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	w.t.Helper()
	w.Act(func() error { return remove(context.Background(), name, metav1.DeleteOptions{}) })
}

// Update writes an object with a client's Update or UpdateStatus, as [World.Act] does.
func Update[T any](w *World, update func(context.Context, T, metav1.UpdateOptions) (T, error), object T) {
	w.t.Helper()
	w.Act(func() error {
		_, err := update(context.Background(), object, metav1.UpdateOptions{})
		return err
	})
}

// Ready returns the condition Ready. It ends the test unless the status is of the generation.
func (w *World) Ready(generation, observed int64, conditions []metav1.Condition) metav1.Condition {
	w.t.Helper()
	ready := meta.FindStatusCondition(conditions, "Ready")
	if ready == nil || ready.ObservedGeneration != generation || observed != generation {
		w.t.Fatalf("status of generation %d is of %d: %+v", generation, observed, conditions)
	}
	return *ready
}

// RolledOut is the status of a Deployment whose pods are ready.
func RolledOut(d *appsv1.Deployment) appsv1.DeploymentStatus {
	replicas := *d.Spec.Replicas
	return appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
}
