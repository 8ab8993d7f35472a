// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memcachedbackup

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
)

// port is where the pods serve memcached, and user is the user of the image.
const image, port, user = "memcached:1.6.32-alpine", 11211, 11211

// desired returns the child of a MemcachedBackup.
func desired(m *cachev1.MemcachedBackup) child.Desired {
	labels := map[string]string{cachev1.LabelMemcachedBackup: m.Name}
	return appsv1ac.Deployment(m.Name, "").WithLabels(labels).WithSpec(appsv1ac.DeploymentSpec().
		WithReplicas(*m.Spec.Size).WithRevisionHistoryLimit(3).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(desiredPod())))
}

// desiredPod returns the pods, which meet the restricted Pod Security profile.
func desiredPod() *corev1ac.PodSpecApplyConfiguration {
	container := corev1ac.Container().WithName("memcached").WithImage(image).WithArgs("--memory-limit=64").
		WithPorts(corev1ac.ContainerPort().WithName("memcached").WithContainerPort(port)).
		WithReadinessProbe(corev1ac.Probe().WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString("memcached")))).
		WithResources(corev1ac.ResourceRequirements().WithRequests(quantities("50m", "96Mi")).WithLimits(quantities("500m", "128Mi"))).
		WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
	return corev1ac.PodSpec().WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).
		WithSecurityContext(corev1ac.PodSecurityContext().WithRunAsNonRoot(true).WithRunAsUser(user).WithRunAsGroup(user).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(container)
}

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}
