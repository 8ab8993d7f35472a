// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// conditionReady is the condition that a kind reports to [OfReporting].
const conditionReady = "Ready"

// Health is the health of an object, by the rules of kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus).
type Health struct {
	// Status is one of kstatus' results: Current, InProgress, Failed,
	// Terminating, NotFound or Unknown.
	Status status.Status
	// Message says why the object is not Current, and why its pods cannot be created, if they
	// cannot. It is empty when the object is Current.
	Message string
	// Reason is the reason of kstatus for an object that is Failed: for a custom resource, the
	// reason of its condition Stalled. It is empty for all other objects.
	Reason string
	// Replicas and ReadyReplicas are the counts in the status of a workload, and
	// Selector its label selector; zero for all other kinds.
	Replicas, ReadyReplicas int32
	Selector                string
	// Available reports that the condition Available of a Deployment is True.
	Available bool
	// PodsRefused says why the pods of the newest generation of a workload cannot be created,
	// for example because admission refuses them, without the names of the pods. It is empty
	// if they can.
	PodsRefused string
	// PodsMissing is the end of Message if a StatefulSet lacks pods, or a started Job has none: the
	// command that shows why. [RefusedPods] may know why. It is empty for all other objects.
	PodsMissing string
	// Ended is the result of an object that ends, such as a Job, and is then deleted by its own rule.
	Ended End
}

// Explained returns the health with the reason why the pods of the object are missing or fail.
func (h Health) Explained(reason string) Health {
	message := strings.TrimSuffix(h.Message, h.PodsMissing)
	if message != "" {
		message += ": "
	}
	h.Message, h.PodsMissing = message+reason, ""
	return h
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

// Of computes the health of a whole object, see [compute].
func Of(object *unstructured.Unstructured) Health {
	result, err := compute(object)
	if err != nil {
		return Health{Status: status.UnknownStatus, Message: err.Error()}
	}
	if result.Status == status.CurrentStatus && lacksFirstPod(object) {
		result = &status.Result{Status: status.InProgressStatus, Message: "No pod exists"}
	}
	health := Health{Status: result.Status, PodsRefused: podsRefused(object), Ended: EndOf(object)}
	if result.Status != status.CurrentStatus {
		health.Message = result.Message
		health.Reason = failureReason(result)
		if health.PodsRefused != "" {
			health.Message += ": " + withRemedy(health.PodsRefused)
		} else {
			health.PodsMissing = podsMissing(object)
			health.Message += health.PodsMissing
		}
	}
	if object.GroupVersionKind().GroupKind() == deployments {
		available, found := conditionOf(object, string(appsv1.DeploymentAvailable))
		health.Available = found && available.Status == corev1.ConditionTrue
	}
	health.Replicas = nestedInt32(object.Object, "status", "replicas")
	health.ReadyReplicas = nestedInt32(object.Object, "status", "readyReplicas")
	health.Selector = selectorOf(object.Object)
	return health
}

// failureReason returns Health.Reason.
func failureReason(result *status.Result) string {
	if result.Status != status.FailedStatus || len(result.Conditions) == 0 {
		return ""
	}
	return result.Conditions[0].Reason
}

// OfTyped computes the health of an object of a built-in type.
func OfTyped(object metav1.Object) Health {
	whole, err := toUnstructured(object)
	if err != nil {
		return Health{Status: status.UnknownStatus, Message: err.Error()}
	}
	return Of(whole)
}

// OfReporting computes the health of an object whose kind reports the condition Ready. An
// object without this condition is InProgress, because its controller has not seen it yet.
func OfReporting(object metav1.Object, gvk schema.GroupVersionKind) Health {
	whole, err := toUnstructured(object)
	if err != nil {
		return Health{Status: status.UnknownStatus, Message: err.Error()}
	}
	if whole.GroupVersionKind() != gvk {
		whole.SetGroupVersionKind(gvk)
	}
	health := Of(whole)
	if health.Status == status.CurrentStatus && !reportsReady(whole) {
		health.Status, health.Message = status.InProgressStatus, "No controller has reported the condition Ready yet"
	}
	return health
}

func reportsReady(object *unstructured.Unstructured) bool {
	_, found := conditionOf(object, conditionReady)
	return found
}

var (
	deployments  = schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}
	statefulSets = schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}
	jobs         = schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}
)

// podsMissing returns Health.PodsMissing of an object that is not Current.
func podsMissing(object *unstructured.Unstructured) string {
	switch {
	case lacksPods(object):
		return fmt.Sprintf(": pods are missing; kubectl describe statefulset %s says whether a quota or admission refuses them", object.GetName())
	case lacksFirstPod(object):
		return fmt.Sprintf("; kubectl describe job %s says whether a quota or admission refuses its pods", object.GetName())
	default:
		return ""
	}
}

// lacksPods reports whether a StatefulSet has fewer pods than it should have, though all of them
// are available. Its controller has then tried to create the next one. Unlike a Deployment, a
// StatefulSet has no condition that says why this failed.
func lacksPods(object *unstructured.Unstructured) bool {
	desired, given, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if !given {
		desired = 1
	}
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	existing := nestedInt32(object.Object, "status", "replicas")
	return object.GroupVersionKind().GroupKind() == statefulSets && err == nil &&
		observed > 0 && observed == object.GetGeneration() &&
		int64(existing) < desired && nestedInt32(object.Object, "status", "availableReplicas") == existing
}

// lacksFirstPod reports whether a started Job has never had a pod, though it should. Its controller
// starts a Job and counts the first pods in one write of the status, so it has then tried to create
// them. For kstatus, a started Job is Current. A Job has no condition that says why this failed.
func lacksFirstPod(object *unstructured.Unstructured) bool {
	if object.GroupVersionKind().GroupKind() != jobs || object.GetDeletionTimestamp() != nil {
		return false
	}
	started, _, _ := unstructured.NestedString(object.Object, "status", "startTime")
	suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
	parallelism, given, _ := unstructured.NestedInt64(object.Object, "spec", "parallelism")
	if started == "" || suspended || given && parallelism == 0 {
		return false
	}
	for _, end := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if condition, _ := conditionOf(object, string(end)); condition.Status == corev1.ConditionTrue {
			return false
		}
	}
	for _, count := range []string{"active", "terminating", "succeeded", "failed"} {
		if nestedInt32(object.Object, "status", count) > 0 {
			return false
		}
	}
	for _, ended := range []string{"succeeded", "failed"} {
		if pods, _, _ := unstructured.NestedSlice(object.Object, "status", "uncountedTerminatedPods", ended); len(pods) > 0 {
			return false
		}
	}
	return true
}

// podsRefused returns Health.PodsRefused.
func podsRefused(object *unstructured.Unstructured) string {
	failure, found := conditionOf(object, string(appsv1.DeploymentReplicaFailure))
	if !found || failure.Status != corev1.ConditionTrue {
		return ""
	}
	if observed, reports, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); reports && observed < object.GetGeneration() {
		return "" // The pods of the newest generation may be accepted.
	}
	return withoutPod(failure.Message)
}

func conditionOf(object *unstructured.Unstructured, conditionType string) (status.BasicCondition, bool) {
	with, err := status.GetObjectWithConditions(object.Object)
	if err != nil {
		return status.BasicCondition{}, false
	}
	i := slices.IndexFunc(with.Status.Conditions, func(c status.BasicCondition) bool { return c.Type == conditionType })
	if i < 0 {
		return status.BasicCondition{}, false
	}
	return with.Status.Conditions[i], true
}

// toUnstructured converts a typed object. It leaves out the managed fields and, of a workload, most
// other metadata and the template of pods, which are most of the object and do not matter to health.
func toUnstructured(object metav1.Object) (*unstructured.Unstructured, error) {
	if whole, ok := object.(*unstructured.Unstructured); ok {
		return whole, nil
	}
	managed := object.GetManagedFields()
	object.SetManagedFields(nil)
	defer object.SetManagedFields(managed)
	typed, ok := reduced(object).(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", object)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	whole := &unstructured.Unstructured{Object: content}
	if kinds, _, err := scheme.Scheme.ObjectKinds(typed); err == nil {
		// Decoded objects have no kind.
		whole.SetGroupVersionKind(kinds[0])
	}
	return whole, nil
}

// reduced returns a workload without the template of its pods, and with the metadata that matters to
// health. It returns other objects unchanged.
func reduced(object metav1.Object) metav1.Object {
	none := corev1.PodTemplateSpec{}
	meta := metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(),
		Generation: object.GetGeneration(), DeletionTimestamp: object.GetDeletionTimestamp(),
	}
	switch whole := object.(type) {
	case *appsv1.Deployment:
		copied := *whole
		copied.ObjectMeta, copied.Spec.Template = meta, none
		return &copied
	case *appsv1.StatefulSet:
		copied := *whole
		copied.ObjectMeta, copied.Spec.Template = meta, none
		return &copied
	case *appsv1.DaemonSet:
		copied := *whole
		copied.ObjectMeta, copied.Spec.Template = meta, none
		return &copied
	case *batchv1.Job:
		copied := *whole
		copied.ObjectMeta, copied.Spec.Template = meta, none
		return &copied
	default:
		return object
	}
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
