// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// lessStrict reports whether pods of a newer spec may do more than pods of the live one. It compares
// the settings of the Pod Security Standards, and the access to the API server. Unknown settings,
// such as another profile of the node, count as less strict.
func lessStrict(live, newer corev1.PodSpec) bool {
	switch {
	case newer.HostNetwork && !live.HostNetwork, newer.HostPID && !live.HostPID, newer.HostIPC && !live.HostIPC:
		return true
	case newer.ServiceAccountName != live.ServiceAccountName,
		isFalse(live.AutomountServiceAccountToken) && !isFalse(newer.AutomountServiceAccountToken):
		return true
	}
	for _, volume := range newer.Volumes {
		if volume.HostPath != nil && !slices.ContainsFunc(live.Volumes, func(v corev1.Volume) bool {
			return v.HostPath != nil && v.HostPath.Path == volume.HostPath.Path
		}) {
			return true
		}
	}
	before := append(slices.Clone(live.Containers), live.InitContainers...)
	for _, container := range append(slices.Clone(newer.Containers), newer.InitContainers...) {
		was := newContainer
		if i := slices.IndexFunc(before, func(c corev1.Container) bool { return c.Name == container.Name }); i >= 0 {
			was = before[i]
		}
		if opensHostPort(was, container) || lessStrictContainer(effective(live, was), effective(newer, container)) {
			return true
		}
	}
	return false
}

// newContainer is compared with a container that the live pods do not have.
var newContainer = corev1.Container{SecurityContext: &corev1.SecurityContext{
	AllowPrivilegeEscalation: new(bool), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
}}

func opensHostPort(live, newer corev1.Container) bool {
	return slices.ContainsFunc(newer.Ports, func(port corev1.ContainerPort) bool {
		return port.HostPort != 0 && !slices.ContainsFunc(live.Ports, func(p corev1.ContainerPort) bool { return p.HostPort == port.HostPort })
	})
}

// effective returns the security context of a container, including the settings that it inherits from its pod.
func effective(pod corev1.PodSpec, container corev1.Container) corev1.SecurityContext {
	var of corev1.SecurityContext
	if container.SecurityContext != nil {
		of = *container.SecurityContext
	}
	if shared := pod.SecurityContext; shared != nil {
		inherit(&of.RunAsNonRoot, shared.RunAsNonRoot)
		inherit(&of.RunAsUser, shared.RunAsUser)
		inherit(&of.SeccompProfile, shared.SeccompProfile)
		inherit(&of.AppArmorProfile, shared.AppArmorProfile)
		inherit(&of.SELinuxOptions, shared.SELinuxOptions)
	}
	if of.Capabilities == nil {
		of.Capabilities = &corev1.Capabilities{}
	}
	return of
}

func inherit[T any](field **T, shared *T) {
	if *field == nil {
		*field = shared
	}
}

func lessStrictContainer(live, newer corev1.SecurityContext) bool {
	mayBeRoot := func(c corev1.SecurityContext) bool {
		return !isTrue(c.RunAsNonRoot) && (c.RunAsUser == nil || *c.RunAsUser == 0)
	}
	drops := func(c corev1.SecurityContext, capability corev1.Capability) bool {
		return slices.Contains(c.Capabilities.Drop, capability) || slices.Contains(c.Capabilities.Drop, "ALL")
	}
	switch {
	case isTrue(newer.Privileged) && !isTrue(live.Privileged),
		isFalse(live.AllowPrivilegeEscalation) && !isFalse(newer.AllowPrivilegeEscalation),
		isTrue(live.ReadOnlyRootFilesystem) && !isTrue(newer.ReadOnlyRootFilesystem),
		mayBeRoot(newer) && !mayBeRoot(live):
		return true
	case slices.ContainsFunc(live.Capabilities.Drop, func(c corev1.Capability) bool { return !drops(newer, c) }),
		slices.ContainsFunc(newer.Capabilities.Add, func(c corev1.Capability) bool { return !slices.Contains(live.Capabilities.Add, c) }):
		return true
	}
	return isConfined(live.SeccompProfile) && !isConfined(newer.SeccompProfile) ||
		changed(live.AppArmorProfile, newer.AppArmorProfile) || changed(live.SELinuxOptions, newer.SELinuxOptions) ||
		newer.ProcMount != nil && *newer.ProcMount != corev1.DefaultProcMount && changed(newer.ProcMount, live.ProcMount)
}

func isConfined(profile *corev1.SeccompProfile) bool {
	return profile != nil && profile.Type != corev1.SeccompProfileTypeUnconfined
}

// changed reports whether a setting that was there is another one.
func changed[T comparable](before, after *T) bool {
	return before != nil && (after == nil || *before != *after)
}

func isTrue(value *bool) bool { return value != nil && *value }

func isFalse(value *bool) bool { return value != nil && !*value }
