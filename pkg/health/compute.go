// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	daemonSets             = schema.GroupKind{Group: appsv1.GroupName, Kind: "DaemonSet"}
	replicationControllers = schema.GroupKind{Kind: "ReplicationController"}
	pods                   = schema.GroupKind{Kind: "Pod"}
	claims                 = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	budgets                = schema.GroupKind{Group: policyv1.GroupName, Kind: "PodDisruptionBudget"}
	apiServices            = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
)

// compute returns the status of an object by kstatus, with these exceptions: an object that
// fulfills its spec is Current, and an object that a person must repair is Failed.
//
//   - A workload whose pods are not replaced by themselves, because it is paused or has the strategy
//     OnDelete, is judged by the pods that it has. For kstatus, it never becomes Current, or always is.
//   - A suspended Job is Current.
//   - A failed Pod, and a claim whose volume is lost, are Failed. For kstatus, they are Current or
//     InProgress.
//   - A Pod that cannot be scheduled is InProgress, because an autoscaler may add a node. For kstatus,
//     it is Failed 15 seconds after its creation.
//   - A StatefulSet with minReadySeconds is InProgress until its pods are available.
//   - A PodDisruptionBudget whose allowed disruptions cannot be computed is Current, because its
//     controller does not observe any further generation. It refuses evictions until they can be.
//   - A ReplicationController is judged as a ReplicaSet, and an APIService is InProgress until it is
//     available. kstatus does not know these kinds.
func compute(object *unstructured.Unstructured) (*status.Result, error) {
	if object.GetDeletionTimestamp() != nil {
		return status.Compute(object)
	}
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, fields...)
		return value
	}
	yes := func(fields ...string) bool {
		value, _, _ := unstructured.NestedBool(object.Object, fields...)
		return value
	}
	switch object.GroupVersionKind().GroupKind() {
	case deployments:
		if yes("spec", "paused") {
			return status.Compute(asIfUpdated(object, "updatedReplicas", "replicas"))
		}
	case daemonSets:
		if text("spec", "updateStrategy", "type") == string(appsv1.OnDeleteDaemonSetStrategyType) {
			return status.Compute(asIfUpdated(object, "updatedNumberScheduled", "currentNumberScheduled"))
		}
	case statefulSets:
		if text("spec", "updateStrategy", "type") == string(appsv1.OnDeleteStatefulSetStrategyType) {
			object = asIfUpdated(object, "updatedReplicas", "replicas", "currentReplicas", "replicas", "updateRevision", "currentRevision")
		}
		return computeStatefulSet(object)
	case replicationControllers:
		return status.Compute(asReplicaSet(object))
	case jobs:
		if yes("spec", "suspend") && text("status", "startTime") == "" {
			return &status.Result{Status: status.CurrentStatus}, nil
		}
	case pods:
		if text("status", "phase") == string(corev1.PodFailed) {
			reason, message := text("status", "reason"), text("status", "message")
			return failed("The pod has failed: " + cmp.Or(reason, "its containers have ended with an error") + after(message)), nil
		}
		if scheduled, _ := conditionOf(object, string(corev1.PodScheduled)); scheduled.Status == corev1.ConditionFalse {
			return inProgress("The pod is not scheduled: " + scheduled.Reason + after(scheduled.Message)), nil
		}
	case budgets:
		if computed, _ := conditionOf(object, policyv1.DisruptionAllowedCondition); computed.Reason == policyv1.SyncFailedReason {
			return &status.Result{Status: status.CurrentStatus}, nil
		}
	case claims:
		if text("status", "phase") == string(corev1.ClaimLost) {
			return failed("Its PersistentVolume " + text("spec", "volumeName") + " is gone, and the data with it: delete the claim, or bring the volume back"), nil
		}
	case apiServices:
		available, _ := conditionOf(object, "Available")
		if available.Status != corev1.ConditionTrue {
			return inProgress("Not available: " + cmp.Or(available.Reason, "not seen yet") + after(available.Message)), nil
		}
	}
	return status.Compute(object)
}

// computeStatefulSet returns the status of a StatefulSet.
func computeStatefulSet(object *unstructured.Unstructured) (*status.Result, error) {
	result, err := status.Compute(object)
	if err != nil || result.Status != status.CurrentStatus || nestedInt32(object.Object, "spec", "minReadySeconds") == 0 {
		return result, err
	}
	replicas, available := nestedInt32(object.Object, "status", "replicas"), nestedInt32(object.Object, "status", "availableReplicas")
	if available < replicas {
		return inProgress(fmt.Sprintf("Available: %d/%d", available, replicas)), nil
	}
	return result, nil
}

// asReplicaSet returns a copy of a ReplicationController as a ReplicaSet, whose fields are the same.
func asReplicaSet(object *unstructured.Unstructured) *unstructured.Unstructured {
	copied := &unstructured.Unstructured{Object: maps.Clone(object.Object)}
	copied.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	return copied
}

func inProgress(message string) *status.Result {
	return &status.Result{Status: status.InProgressStatus, Message: message}
}

func failed(message string) *status.Result {
	return &status.Result{Status: status.FailedStatus, Message: message}
}

func after(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// asIfUpdated returns a copy of a workload without an update strategy and a deadline, in which some fields of the
// status get the values of other fields. Both are given in pairs.
func asIfUpdated(object *unstructured.Unstructured, pairs ...string) *unstructured.Unstructured {
	copied := &unstructured.Unstructured{Object: maps.Clone(object.Object)}
	for _, part := range []string{"spec", "status"} {
		if whole, ok := copied.Object[part].(map[string]any); ok {
			copied.Object[part] = maps.Clone(whole)
		}
	}
	unstructured.RemoveNestedField(copied.Object, "spec", "updateStrategy")
	unstructured.RemoveNestedField(copied.Object, "spec", "progressDeadlineSeconds")
	if counts, ok := copied.Object["status"].(map[string]any); ok {
		for i := 0; i+1 < len(pairs); i += 2 {
			if value, ok := counts[pairs[i+1]]; ok {
				counts[pairs[i]] = value
			}
		}
	}
	return copied
}
