// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Health is the health of an object, by the rules of kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus).
type Health struct {
	// Status is one of kstatus' results: Current, InProgress, Failed,
	// Terminating, NotFound or Unknown.
	Status status.Status
	// Message says why the object is not Current; empty when it is.
	Message string
	// Replicas and ReadyReplicas are the counts in the status of a workload, and
	// Selector its label selector; zero for all other kinds.
	Replicas, ReadyReplicas int32
	Selector                string
}

// Statusless are the kinds whose objects are healthy as soon as they exist. Their metadata
// is enough to watch.
var Statusless = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:      true,
	{Kind: "Endpoints"}:      true,
	{Kind: "LimitRange"}:     true,
	{Kind: "PodTemplate"}:    true,
	{Kind: "Secret"}:         true,
	{Kind: "ServiceAccount"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: true,
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:                              true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                              true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                             true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                    true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                       true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                              true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                       true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                             true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                    true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                 true,
}

// Of computes the health of a whole object.
func Of(object *unstructured.Unstructured) Health {
	result, err := status.Compute(object)
	if err != nil {
		return Health{Status: status.UnknownStatus, Message: err.Error()}
	}
	health := Health{Status: result.Status}
	if result.Status != status.CurrentStatus {
		health.Message = result.Message
	}
	health.Replicas = nestedInt32(object.Object, "status", "replicas")
	health.ReadyReplicas = nestedInt32(object.Object, "status", "readyReplicas")
	health.Selector = selectorOf(object.Object)
	return health
}

// OfTyped computes the health of an object of a built-in type. It leaves out the managed
// fields, which are most of the object and do not matter to health.
func OfTyped(object metav1.Object) Health {
	typed, ok := object.(runtime.Object)
	if !ok {
		return Health{Status: status.UnknownStatus, Message: fmt.Sprintf("unexpected %T", object)}
	}
	managed := object.GetManagedFields()
	object.SetManagedFields(nil)
	defer object.SetManagedFields(managed)
	whole := &unstructured.Unstructured{}
	var err error
	if whole.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return Health{Status: status.UnknownStatus, Message: err.Error()}
	}
	if kinds, _, err := scheme.Scheme.ObjectKinds(typed); err == nil {
		// Decoded objects have no kind.
		whole.SetGroupVersionKind(kinds[0])
	}
	return Of(whole)
}

// OfStatusless computes the health of an object whose kind has no status.
func OfStatusless(object metav1.Object) Health {
	if object.GetDeletionTimestamp() != nil {
		return Health{Status: status.TerminatingStatus, Message: "Resource scheduled for deletion"}
	}
	return Health{Status: status.CurrentStatus}
}

func nestedInt32(object map[string]any, fields ...string) int32 {
	value, _, err := unstructured.NestedFieldNoCopy(object, fields...)
	if err != nil {
		return 0
	}
	switch n := value.(type) {
	case int64:
		return int32(min(max(n, 0), 1<<31-1))
	case float64:
		return int32(min(max(n, 0), 1<<31-1))
	default:
		return 0
	}
}

func selectorOf(object map[string]any) string {
	raw, found, err := unstructured.NestedMap(object, "spec", "selector")
	if !found || err != nil || raw["matchLabels"] == nil && raw["matchExpressions"] == nil {
		return ""
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &selector); err != nil {
		return ""
	}
	return metav1.FormatLabelSelector(&selector)
}
