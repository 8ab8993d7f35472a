// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxContainers bounds the containers that are kept of a pod.
const maxContainers = 4

// ReducePod returns a pod with the given metadata, and with the fields of the status that [OfPodAt]
// reads, each bounded. Healthy pods have none. It is idempotent, and does not depend on the time.
func ReducePod(whole *corev1.Pod, metadata metav1.ObjectMeta) *corev1.Pod {
	reduced := &corev1.Pod{ObjectMeta: metadata}
	if hasEnded(whole) {
		return reduced
	}
	status := &reduced.Status
	initial, stopped := reduceContainers(whole.Status.InitContainerStatuses, false)
	status.InitContainerStatuses = initial
	if !stopped {
		status.ContainerStatuses, stopped = reduceContainers(whole.Status.ContainerStatuses, true)
	}
	if stopped {
		return reduced
	}
	for _, condition := range whole.Status.Conditions {
		if isUnmounted(condition) {
			status.Conditions = append(status.Conditions, corev1.PodCondition{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime, Message: mountsOf(whole, condition),
			})
		}
		if isUnschedulable(condition) {
			status.Conditions = []corev1.PodCondition{{
				Type: condition.Type, Status: condition.Status, Reason: condition.Reason, Message: textOf(condition.Message),
			}}
		}
	}
	if i := slices.IndexFunc(whole.Status.ContainerStatuses, runsUnready); i >= 0 {
		status.Conditions = append(status.Conditions, unreadyCondition(whole, whole.Status.ContainerStatuses[i]))
	}
	return reduced
}

// reduceContainers returns the containers that [OfPodAt] may blame at some time. After a container
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
		reduced.Image = textOf(whole.Image)
		reduced.State.Waiting = &corev1.ContainerStateWaiting{Reason: imagePullBackOff}
	default:
		reduced.State.Waiting = &corev1.ContainerStateWaiting{Reason: problem.Reason, Message: problem.Detail}
	}
	return reduced
}
