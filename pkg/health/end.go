// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// End is the result of an object that runs to its end and is then deleted by a rule of its own. It
// is empty before the end, and for all other objects.
type End string

// The results.
const (
	Succeeded End = "Succeeded"
	Failed    End = "Failed"
)

// Of the built-in kinds, Pods and CertificateSigningRequests are deleted some time after their end:
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests
var (
	signingRequests = schema.GroupKind{Group: certificatesv1.GroupName, Kind: "CertificateSigningRequest"}
)

// EndOf returns the result of an object. A Job, or another object with
// spec.ttlSecondsAfterFinished, ends with one of the usual conditions.
func EndOf(object *unstructured.Unstructured) End {
	switch object.GroupVersionKind().GroupKind() {
	case pods:
		return endOfPod(object)
	case signingRequests:
		return endBy(object, []string{}, []string{string(certificatesv1.CertificateDenied), string(certificatesv1.CertificateFailed)},
			isIssued(object))
	default:
		if _, expires, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "ttlSecondsAfterFinished"); !expires {
			return ""
		}
		return endBy(object, []string{"Complete", "Completed", "Succeeded"}, []string{"Failed"}, false)
	}
}

// endBy returns the result by conditions with the status True.
func endBy(object *unstructured.Unstructured, succeeded, failed []string, isSuccess bool) End {
	has := func(conditionType string) bool {
		condition, _ := conditionOf(object, conditionType)
		return condition.Status == corev1.ConditionTrue
	}
	switch {
	case slices.ContainsFunc(failed, has):
		return Failed
	case isSuccess, slices.ContainsFunc(succeeded, has):
		return Succeeded
	default:
		return ""
	}
}

// isIssued reports whether a CertificateSigningRequest has its certificate.
func isIssued(object *unstructured.Unstructured) bool {
	certificate, _, _ := unstructured.NestedString(object.Object, "status", "certificate")
	return certificate != ""
}

// endOfPod returns the result of a Pod that does not restart. A Pod that is being deleted ends, too,
// but not by itself, and neither does a Pod that is evicted.
func endOfPod(object *unstructured.Unstructured) End {
	policy, _, _ := unstructured.NestedString(object.Object, "spec", "restartPolicy")
	disrupted, _ := conditionOf(object, string(corev1.DisruptionTarget))
	reason, _, _ := unstructured.NestedString(object.Object, "status", "reason")
	if policy == "" || policy == string(corev1.RestartPolicyAlways) || object.GetDeletionTimestamp() != nil ||
		disrupted.Status == corev1.ConditionTrue || reason == "Evicted" {
		return ""
	}
	switch phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); corev1.PodPhase(phase) {
	case corev1.PodSucceeded:
		return Succeeded
	case corev1.PodFailed:
		return Failed
	default:
		return ""
	}
}

// OfEnded returns the health of an object that has ended and is gone.
func OfEnded(end End) Health {
	if end == Failed {
		return Health{
			Status: status.FailedStatus, Ended: end,
			Message: "It failed and was deleted by its own rule, such as ttlSecondsAfterFinished; the next change runs it again",
		}
	}
	return Health{Status: status.CurrentStatus, Ended: end}
}

// maxEnded limits the remembered objects of a namespace.
const maxEnded = 200

// Ends remembers objects that have ended, because an object may be gone before a pass sees its end.
// Note objects before the cache shows them, so that no pass misses an end. Ends is safe for
// concurrent use. The zero value is ready to use.
type Ends struct {
	mu         sync.Mutex
	namespaces map[string][]ended
}

type ended struct {
	uid types.UID
	end End
}

// Note remembers an object if it has ended.
func (e *Ends) Note(object metav1.Object, end End) {
	if end == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.namespaces == nil {
		e.namespaces = map[string][]ended{}
	}
	noted := ended{object.GetUID(), end}
	known := e.namespaces[object.GetNamespace()]
	if slices.Contains(known, noted) {
		return
	}
	if len(known) == maxEnded {
		known = slices.Delete(known, 0, 1)
	}
	e.namespaces[object.GetNamespace()] = append(known, noted)
}

// Of returns the result of an object; "" if it has not ended, or if that is not known.
func (e *Ends) Of(namespace string, uid types.UID) End {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.namespaces[namespace]
	if i := slices.IndexFunc(known, func(one ended) bool { return one.uid == uid }); i >= 0 {
		return known[i].end
	}
	return ""
}
