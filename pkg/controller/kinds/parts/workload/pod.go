// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
)

// firstUnprivilegedPort is the first port that a process without privileges may listen on.
const firstUnprivilegedPort = 1024

// Pod returns a pod with these containers, whose processes run as user and group, without a
// token of the API server. If user is 0, the images name their user, which must not be root.
func Pod(user int64, containers ...*corev1ac.ContainerApplyConfiguration) *corev1ac.PodSpecApplyConfiguration {
	security := corev1ac.PodSecurityContext().WithRunAsNonRoot(true).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	if user != 0 {
		security.WithRunAsUser(user).WithRunAsGroup(user)
	}
	return corev1ac.PodSpec().WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false).
		WithSecurityContext(security).WithContainers(containers...)
}

// ListenOn lets the processes of a pod, which are not root, listen on a port below 1024.
func ListenOn(pod *corev1ac.PodSpecApplyConfiguration, port int32) {
	if port < firstUnprivilegedPort {
		pod.SecurityContext.WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))
	}
}

// Container returns a container that can gain no privileges. It has a pull policy, because the API
// server sets the default of the first image alone: an image without a tag, after one with a tag,
// would never be pulled again.
func Container(name, image string) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().WithName(name).WithImage(image).WithImagePullPolicy(pullPolicy(image)).
		WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
}

// pullPolicy returns the API server's default for an image.
func pullPolicy(image string) corev1.PullPolicy {
	tagged, _, hasDigest := strings.Cut(image[strings.LastIndex(image, "/")+1:], "@")
	_, tag, hasTag := strings.Cut(tagged, ":")
	if tag == "latest" || !hasTag && !hasDigest {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// Secure sets the user's fields of a container's security context.
func Secure(container *corev1ac.ContainerApplyConfiguration, given *workloadv1alpha1.SecurityContext) {
	if given == nil {
		return
	}
	security := container.SecurityContext
	override(&security.RunAsUser, given.RunAsUser)
	override(&security.RunAsGroup, given.RunAsGroup)
	override(&security.RunAsNonRoot, given.RunAsNonRoot)
	override(&security.ReadOnlyRootFilesystem, given.ReadOnlyRootFilesystem)
	override(&security.AllowPrivilegeEscalation, given.AllowPrivilegeEscalation)
	override(&security.Privileged, given.Privileged)
	if given.Capabilities != nil {
		security.Capabilities = corev1ac.Capabilities().
			WithAdd(capabilities(given.Capabilities.Add)...).WithDrop(capabilities(given.Capabilities.Drop)...)
	}
}

func override[T any](field **T, given *T) {
	if given != nil {
		*field = given
	}
}

func capabilities(names []string) []corev1.Capability {
	converted := make([]corev1.Capability, len(names))
	for i, name := range names {
		converted[i] = corev1.Capability(name)
	}
	return converted
}

// Resources returns the user's resources of a container, or nil.
func Resources(given *workloadv1alpha1.Resources) *corev1ac.ResourceRequirementsApplyConfiguration {
	if given == nil {
		return nil
	}
	return Requirements(resourceList(given.Requests), resourceList(given.Limits))
}

// Requirements returns requests and limits.
func Requirements(requests, limits corev1.ResourceList) *corev1ac.ResourceRequirementsApplyConfiguration {
	return WithLists(corev1ac.ResourceRequirements(), requests, limits)
}

// WithLists sets the requests and limits of resources, and returns the resources, or nil if both
// lists are empty. An empty list or object would be applied as null, which admission refuses.
func WithLists[R interface {
	WithRequests(requests L) R
	WithLimits(limits L) R
}, L ~map[K]resource.Quantity, K comparable](resources R, requests, limits L) R {
	if len(requests) == 0 && len(limits) == 0 {
		var none R
		return none
	}
	if len(requests) > 0 {
		resources.WithRequests(requests)
	}
	if len(limits) > 0 {
		resources.WithLimits(limits)
	}
	return resources
}

// Quantities returns quantities of CPU and memory, such as "50m" and "96Mi". It panics if
// one is invalid, so its arguments must be constants.
func Quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func resourceList(given workloadv1alpha1.ResourceList) corev1.ResourceList {
	converted := corev1.ResourceList{}
	for name, quantity := range given {
		converted[corev1.ResourceName(name)] = quantity
	}
	return converted
}
