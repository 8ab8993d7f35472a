// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
)

// DisruptionBudget returns a PodDisruptionBudget: a drain of nodes takes one pod at a time.
func DisruptionBudget(n Named) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(n.Name, "").WithLabels(n.PodLabels()).WithSpec(policyv1ac.PodDisruptionBudgetSpec().
		WithMaxUnavailable(intstr.FromInt32(1)).WithSelector(metav1ac.LabelSelector().WithMatchLabels(n.Selector)))
}

// Spread spreads the pods of a pod template over zones and nodes, as far as there are enough.
func Spread(n Named, pod *corev1ac.PodSpecApplyConfiguration) {
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		pod.WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().WithMaxSkew(1).WithTopologyKey(key).
			WithWhenUnsatisfiable(corev1.ScheduleAnyway).WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(n.Selector)))
	}
}
