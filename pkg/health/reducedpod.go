// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxContainers bounds the containers that are kept of a pod.
	maxContainers = 4
	// maxReason bounds the reason of a failed pod.
	maxReason = 100
)

// ReducePod returns a pod with the given metadata, and with the fields that [Explain] reads, each
// bounded. Healthy pods have none. It is idempotent, and does not depend on the time. The problem of a
// reduced pod does not alternate while the kubelet tries again.
func ReducePod(whole *corev1.Pod, metadata metav1.ObjectMeta) *corev1.Pod {
	reduced := &corev1.Pod{ObjectMeta: metadata}
	status := &reduced.Status
	switch {
	case whole.DeletionTimestamp != nil:
		reduced.Spec.NodeName = whole.Spec.NodeName
		return reduced
	case whole.Status.Phase == corev1.PodSucceeded:
		status.Phase = corev1.PodSucceeded
		return reduced
	case whole.Status.Phase == corev1.PodFailed:
		status.Phase, status.Reason = corev1.PodFailed, textOf(whole.Status.Reason, maxReason)
		status.Message = textOf(whole.Status.Message, maxPodText)
		status.Conditions = []corev1.PodCondition{endCondition(whole)}
	case isUnanswered(whole):
		reduced.Spec.NodeName = whole.Spec.NodeName
		status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}
		return reduced
	}
	initial, stopped := reduceContainers(whole.Status.InitContainerStatuses, false)
	status.InitContainerStatuses = initial
	if !stopped {
		status.ContainerStatuses, stopped = reduceContainers(whole.Status.ContainerStatuses, true)
	}
	if stopped || status.Phase == corev1.PodFailed {
		return reduced
	}
	if start := conditionOfPod(whole, corev1.PodReadyToStartContainers); start.Status == corev1.ConditionFalse {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: start.Type, Status: start.Status, LastTransitionTime: start.LastTransitionTime,
		})
	}
	if scheduled := conditionOfPod(whole, corev1.PodScheduled); scheduled.Status == corev1.ConditionFalse && scheduled.Reason != "" {
		status.Conditions = []corev1.PodCondition{{
			Type: scheduled.Type, Status: scheduled.Status, Reason: textOf(scheduled.Reason, maxPodText), Message: textOf(scheduled.Message, maxPodText),
		}}
	}
	if i := slices.IndexFunc(whole.Status.ContainerStatuses, runsUnready); i >= 0 {
		status.Conditions = append(status.Conditions, unreadyCondition(whole, whole.Status.ContainerStatuses[i]))
	}
	return reduced
}

// endCondition returns a condition of a failed pod with the time of the pod's end. A reduced pod
// has the condition.
func endCondition(pod *corev1.Pod) corev1.PodCondition {
	end := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}
	for _, condition := range pod.Status.Conditions {
		if end.LastTransitionTime.Before(&condition.LastTransitionTime) {
			end.LastTransitionTime = condition.LastTransitionTime
		}
	}
	return end
}

// reduceContainers returns the containers that [Explain] may blame at some time. After a container
// that does not run, no other one is blamed.
func reduceContainers(whole []corev1.ContainerStatus, mayBeUnready bool) (reduced []corev1.ContainerStatus, stopped bool) {
	for _, container := range whole {
		_, fails := ofContainer(container)
		if fails || mayBeUnready && runsUnready(container) {
			reduced = append(reduced, reduceContainer(container))
		}
		if stopped = fails && container.State.Running == nil; stopped || len(reduced) == maxContainers {
			return reduced, stopped
		}
	}
	return reduced, false
}

func reduceContainer(whole corev1.ContainerStatus) corev1.ContainerStatus {
	reduced := corev1.ContainerStatus{Name: whole.Name}
	if running := whole.State.Running; running != nil {
		reduced.State.Running = &corev1.ContainerStateRunning{StartedAt: running.StartedAt}
	}
	problem, fails := ofContainer(whole)
	switch {
	case !fails:
	case problem.Crashed():
		reduced.RestartCount = min(whole.RestartCount, manyRestarts)
		ended := whole.State.Terminated
		if ended == nil {
			ended = whole.LastTerminationState.Terminated
		}
		if whole.State.Running == nil {
			reduced.State.Waiting = &corev1.ContainerStateWaiting{Reason: crashLoopBackOff}
		}
		if ended != nil {
			reduced.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, Reason: problem.Reason}
		}
	case problem.Reason == imagePullBackOff:
		reduced.Image = textOf(whole.Image, maxPodText)
		reduced.State.Waiting = &corev1.ContainerStateWaiting{Reason: imagePullBackOff}
	default:
		reduced.State.Waiting = &corev1.ContainerStateWaiting{Reason: problem.Reason, Message: problem.Detail}
	}
	return reduced
}
