// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/shutdown"
)

// Named is the name of an object, its labels, and the labels by which it selects its pods.
// The pods have both.
type Named struct {
	Name     string
	Labels   map[string]string
	Selector map[string]string
}

// PodLabels are the labels of the pods.
func (n Named) PodLabels() map[string]string {
	labels := maps.Clone(n.Selector)
	maps.Copy(labels, n.Labels)
	return labels
}

// Deployment returns a Deployment of these pods. A pod that is deleted serves on until clients no longer
// reach it, see package shutdown.
func Deployment(n Named, replicas int32, pod *corev1ac.PodSpecApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	pod.WithTerminationGracePeriodSeconds(shutdown.GracePeriod)
	for i := range pod.Containers {
		if len(pod.Containers[i].Ports) > 0 {
			pod.Containers[i].WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
				WithSleep(corev1ac.SleepAction().WithSeconds(shutdown.Delay))))
		}
	}
	return appsv1ac.Deployment(n.Name, "").WithLabels(n.PodLabels()).WithSpec(appsv1ac.DeploymentSpec().
		WithReplicas(replicas).WithRevisionHistoryLimit(3).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(n.Selector)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(n.PodLabels()).WithSpec(pod)))
}

// Profiled returns the Deployment of pods whose first container runs an image of a user. The pods meet the
// restricted Pod Security profile if restricted is true, for example because the namespace enforces it, or if
// given asks for a user other than root. Other pods run as the user of their image, which may be root, with
// the capabilities that images expect. given overrides single fields. Pods that run do not become less
// strict before their owner changes. pod returns new pods of [Pod] at each call.
func Profiled(
	n Named, replicas int32, given *workloadv1alpha1.SecurityContext, restricted bool, pod func() *corev1ac.PodSpecApplyConfiguration,
) child.Desired {
	strict := pod()
	Secure(&strict.Containers[0], given)
	deployment := Deployment(n, replicas, strict)
	if restricted || isNonRoot(given) {
		return deployment
	}
	stock := pod()
	stock.SecurityContext.RunAsNonRoot, stock.Containers[0].SecurityContext.Capabilities = nil, nil
	Secure(&stock.Containers[0], given)
	return child.KeepUntilChange(Deployment(n, replicas, stock), deployment)
}

// isNonRoot reports whether a security context asks for a user other than root.
func isNonRoot(given *workloadv1alpha1.SecurityContext) bool {
	return given != nil && (ptr.Deref(given.RunAsNonRoot, false) || ptr.Deref(given.RunAsUser, 0) != 0)
}

// Service returns a Service of type ClusterIP. It serves on port, and reaches the pods at the
// container port of the name portName.
func Service(n Named, portName string, port int32) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(n.Name, "").WithLabels(n.PodLabels()).WithSpec(corev1ac.ServiceSpec().
		WithType(corev1.ServiceTypeClusterIP).WithSelector(n.Selector).
		WithPorts(corev1ac.ServicePort().WithName(portName).WithPort(port).WithTargetPort(intstr.FromString(portName))))
}

// Port returns a container port with a name.
func Port(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(port)
}

// TCPProbe returns a probe that connects to a named container port.
func TCPProbe(portName string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString(portName)))
}
