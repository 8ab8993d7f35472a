// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusal recognizes, by texts of Kubernetes, why an object or its pods are refused. A text may
// only explain: in messages of conditions and events, and to users of the plugin. The operator decides by
// status, reason, causes and fields of an answer, because texts change with each version of Kubernetes.
// [ImpersonationMissing] is the exception. All texts are here, and the integration tests have each
// supported version refuse an object for each of them.
package refusal

import (
	"cmp"
	"regexp"
	"slices"
)

// Text is a text of Kubernetes. Its subject is the object that the text names as the cause.
type Text struct{ pattern *regexp.Regexp }

// Texts of the API server and of its admission plugins.
var (
	// QuotaExceeded is about a ResourceQuota that has no room.
	QuotaExceeded = text(`exceeded quota: ([^,\s]+)`)
	// QuotaUnspecified is about a ResourceQuota for resources that a pod does not request.
	QuotaUnspecified = text(`failed quota: ([^:\s]+): must specify`)
	// LimitExceeded is about a LimitRange, which the text does not name.
	LimitExceeded = text(`(?:minimum|maximum) \S+ usage per \S+ is`)
	// PodSecurityViolated is about the Pod Security level of the namespace.
	PodSecurityViolated = text(`violates PodSecurity`)
	// WebhookDenied is about the decision of an admission webhook, and WebhookFailed about a webhook
	// that did not answer.
	WebhookDenied = text(`[Aa]dmission webhook "([^"]+)" denied`)
	WebhookFailed = text(`failed calling webhook "([^"]+)"`)
	// PolicyDenied is about a ValidatingAdmissionPolicy.
	PolicyDenied = text(`ValidatingAdmissionPolicy '([^']+)' .*denied`)
	// NamespaceTerminating and NamespaceMissing are about a namespace.
	NamespaceTerminating = text(`namespace "?([a-z0-9-]+)"? because it is being terminated`)
	NamespaceMissing     = text(`namespaces "([a-z0-9-]+)" not found`)
	// ServiceAccountMissing is about the ServiceAccount of a pod.
	ServiceAccountMissing = text(`serviceaccounts? "([^"]+)" not found`)
	// PriorityClassMissing is about the PriorityClass of a pod.
	PriorityClassMissing = text(`no PriorityClass with name (\S+) was found`)
	// PermissionMissing is about a user without a permission.
	PermissionMissing = text(`User "([^"]+)" cannot (?:create|get|list|watch|update|patch|delete|impersonate)`)
	// ImpersonationMissing is about a user who may not act as another one, without a subject. It is the only text that decides:
	// Kubernetes 1.37 has no other mark of this refusal.
	ImpersonationMissing = text(`cannot impersonate`)
	// PermissionNamespace is the namespace of the missing permission.
	PermissionNamespace = text(`in the namespace "([^"]+)"`)
	// Immutable is about a field that cannot change, without a subject.
	Immutable = text(`field is immutable|may not be changed|updates to statefulset spec`)
	// PortAllocated is about a port of another Service, without a subject.
	PortAllocated = text(`provided port is already allocated`)
	// FieldUnknown is about a field that the kind does not have. The subject is its path.
	FieldUnknown = text(`unknown field "([^"]+)"`)
)

// Texts of the scheduler and of controllers.
var (
	// ClaimsUnbound is about a pod that waits for its PersistentVolumeClaims, without a subject.
	ClaimsUnbound = text(`PersistentVolumeClaim`)
	// ClaimMissing is about a pod that waits for an absent PersistentVolumeClaim.
	ClaimMissing = text(`persistentvolumeclaim "([^"]+)" not found`)
	// StorageClassMissing is about a PersistentVolumeClaim of an absent StorageClass.
	StorageClassMissing = text(`storageclass(?:\.storage\.k8s\.io)? "([^"]+)" not found`)
)

// Texts of the kubelet, about a pod that lacks a Secret or ConfigMap, or a key of one.
var (
	SecretMissing    = text(`(?i)\bsecrets? (?:"([^"]+)" not found|[a-z0-9-]+/([a-z0-9.-]+))`)
	ConfigMapMissing = text(`(?i)\bconfigmaps? (?:"([^"]+)" not found|[a-z0-9-]+/([a-z0-9.-]+))`)
)

// RootRefused is a text of the kubelet about a container that must not run as root, without a subject.
var RootRefused = text(`(?i)non-?root`)

// KindMissing is the text of client-go for a kind that the API server does not serve.
var KindMissing = text(`no matches for kind "([^"]+)"`)

func text(expression string) Text { return Text{regexp.MustCompile(expression)} }

// In reports whether the text is part of a message.
func (t Text) In(message string) bool { return t.pattern.MatchString(message) }

// Subject returns the first subject of the text in a message. It is empty for a text without a subject,
// and if the text is not part of the message.
func (t Text) Subject(message string) string {
	for _, subject := range t.Subjects(message) {
		return subject
	}
	return ""
}

// Subjects returns the subjects of the text in a message, each once.
func (t Text) Subjects(message string) []string {
	var subjects []string
	for _, match := range t.pattern.FindAllStringSubmatch(message, -1) {
		if subject := cmp.Or(match[1:]...); subject != "" && !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	return subjects
}
