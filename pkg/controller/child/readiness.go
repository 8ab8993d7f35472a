// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Readiness reports whether a pod of an owner is ready. The pods have a label whose value is the
// name of their owner.
type Readiness struct {
	*Labeled[*corev1.Pod]

	kube kubernetes.Interface
}

// NewReadiness returns the readiness of the pods with the label.
func NewReadiness(env Informers, kube kubernetes.Interface, label string) (Readiness, error) {
	pods, err := NewLabeled(env, "Pods", label,
		func(namespace string, indexers cache.Indexers, tweak func(*metav1.ListOptions)) cache.SharedIndexInformer {
			return corev1informers.NewFilteredPodInformer(kube, namespace, 0, indexers, tweak)
		}, reduceToReady)
	return Readiness{pods, kube}, err
}

// Inherit sets the labels that the owner passes on.
func (r Readiness) Inherit(ctx context.Context, owner metav1.Object) error {
	return r.Labeled.Inherit(ctx, owner, corev1.SchemeGroupVersion.WithKind("Pod"), r.kube.CoreV1().Pods(owner.GetNamespace()),
		func(*corev1.Pod) bool { return true })
}

// reduceToReady keeps the node and the condition Ready, without its times.
func reduceToReady(whole *corev1.Pod, metadata metav1.ObjectMeta) *corev1.Pod {
	reduced := &corev1.Pod{ObjectMeta: metadata, Spec: corev1.PodSpec{NodeName: whole.Spec.NodeName}}
	for _, condition := range whole.Status.Conditions {
		if condition.Type == corev1.PodReady {
			reduced.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: condition.Status}}
		}
	}
	return reduced
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
	return ok && pod.DeletionTimestamp == nil && len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
}
