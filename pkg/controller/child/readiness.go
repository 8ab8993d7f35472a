// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/example/demoapp-controller/pkg/health"
)

// Readiness is the health of the pods of an owner, and reports which of them are ready. The pods
// have a label whose value is the name of their owner.
type Readiness struct {
	PodHealth

	kube kubernetes.Interface
}

// NewReadiness returns the readiness of the pods with the label.
func NewReadiness(env Informers, kube kubernetes.Interface, label string) (Readiness, error) {
	pods, err := newPodHealth(env, kube, "Pods", label, reduceToReady)
	return Readiness{pods, kube}, err
}

// Inherit sets the labels that the owner passes on, on the pods of a workload. See
// [Labeled.Inherit].
func (r Readiness) Inherit(ctx context.Context, owner, workload metav1.Object, now time.Time, retryAfter func(time.Duration)) error {
	return r.Labeled.Inherit(ctx, owner, corev1.SchemeGroupVersion.WithKind("Pod"), r.kube.CoreV1().Pods(owner.GetNamespace()),
		func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, workload) }, now, retryAfter)
}

// reduceToReady keeps the health, the node and the condition Ready, without its times.
func reduceToReady(whole *corev1.Pod, metadata metav1.ObjectMeta) *corev1.Pod {
	reduced := health.ReducePod(whole, metadata)
	reduced.Spec.NodeName = whole.Spec.NodeName
	if ready := readyOf(whole); ready != nil && readyOf(reduced) == nil {
		reduced.Status.Conditions = append(reduced.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready.Status})
	}
	return reduced
}

// readyOf returns the condition Ready of a pod; nil without one.
func readyOf(pod *corev1.Pod) *corev1.PodCondition {
	for i, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Termination returns the node of a pod that is being deleted, and the time at which its grace
// period ends. The time is zero for another pod.
func (r Readiness) Termination(namespace, name string) (node string, end metav1.Time) {
	if pod, ok := r.Get(namespace, name); ok && pod.DeletionTimestamp != nil {
		return pod.Spec.NodeName, *pod.DeletionTimestamp
	}
	return "", metav1.Time{}
}

// IsReady reports whether a pod is ready and not being deleted.
func (r Readiness) IsReady(namespace, name string) bool {
	pod, ok := r.Get(namespace, name)
	if !ok || pod.DeletionTimestamp != nil {
		return false
	}
	ready := readyOf(pod)
	return ready != nil && ready.Status == corev1.ConditionTrue
}
