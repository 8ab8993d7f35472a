// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package website

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	webappv1 "github.com/example/demoapp-controller/pkg/apis/webapp/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
)

// port is where the pods serve the page, and nginx is the user that they run as.
const port, nginx = 80, 101

// desired returns the children of a Website.
func desired(w *webappv1.Website) []child.Desired {
	labels := labelsOf(w)
	return []child.Desired{
		corev1ac.ConfigMap(w.Name, "").WithLabels(labels).WithData(map[string]string{"index.html": w.Spec.HTML}),
		appsv1ac.Deployment(w.Name, "").WithLabels(labels).WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(*w.Spec.Replicas).WithRevisionHistoryLimit(3).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(desiredPod(w))),
		corev1ac.Service(w.Name, "").WithLabels(labels).WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).WithSelector(labels).
			WithPorts(corev1ac.ServicePort().WithName("http").WithPort(port).WithTargetPort(intstr.FromString("http")))),
	}
}

func labelsOf(w *webappv1.Website) map[string]string {
	return map[string]string{webappv1.LabelApp: Name, webappv1.LabelWebsite: w.Name}
}

// desiredPod returns the pods, which meet the restricted Pod Security profile. Port 80
// needs a sysctl, and the files of the web server a volume, because it does not run as root.
func desiredPod(w *webappv1.Website) *corev1ac.PodTemplateSpecApplyConfiguration {
	hash := sha256.Sum256([]byte(w.Spec.HTML))
	container := corev1ac.Container().WithName("web").WithImage(w.Spec.Image).
		WithPorts(corev1ac.ContainerPort().WithName("http").WithContainerPort(port)).
		WithReadinessProbe(corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/").WithPort(intstr.FromString("http")))).
		WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("html").WithMountPath("/usr/share/nginx/html").WithReadOnly(true),
			corev1ac.VolumeMount().WithName("writable").WithMountPath("/var/cache/nginx").WithSubPath("cache"),
			corev1ac.VolumeMount().WithName("writable").WithMountPath("/var/run").WithSubPath("run"))
	spec := corev1ac.PodSpec().WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).
		WithSecurityContext(corev1ac.PodSecurityContext().WithRunAsNonRoot(true).WithRunAsUser(nginx).WithRunAsGroup(nginx).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault)).
			WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))).
		WithVolumes(
			corev1ac.Volume().WithName("html").WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(w.Name)),
			corev1ac.Volume().WithName("writable").WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	return corev1ac.PodTemplateSpec().WithLabels(labelsOf(w)).
		WithAnnotations(map[string]string{webappv1.AnnotationHTMLHash: hex.EncodeToString(hash[:16])}).
		WithSpec(spec.WithContainers(container))
}
