// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/message"
)

// maxPodText bounds the texts of the kubelet and the scheduler that are kept of a pod.
const maxPodText = 300

// Reasons of the kubelet why a container does not run.
const (
	imagePullBackOff  = "ImagePullBackOff"
	crashLoopBackOff  = "CrashLoopBackOff"
	configError       = "CreateContainerConfigError"
	containerCreating = "ContainerCreating"
	oomKilled         = "OOMKilled"
)

// ContainerFailures are the reasons of the kubelet for a waiting container that do not go away
// before someone changes an object. The value is what to do.
var ContainerFailures = map[string]string{
	crashLoopBackOff:            "kubectl logs --previous shows why the process ends",
	configError:                 "create the Secret, ConfigMap or key that the message names; if the image runs as root, use one with a numeric user other than root",
	"CreateContainerError":      "kubectl describe pod has the details",
	"ErrImageNeverPull":         "use an image that the nodes have",
	"ErrImagePull":              remedyPull,
	"ImageInspectError":         remedyPull,
	imagePullBackOff:            remedyPull,
	"InvalidImageName":          "correct the name of the image",
	"PreCreateHookError":        "kubectl describe pod has the details",
	"PreStartHookError":         "kubectl describe pod has the details",
	"RegistryUnavailable":       remedyPull,
	"RunContainerError":         "the image must have the program that the container starts",
	"SignatureValidationFailed": "use a signed image",
}

const remedyPull = "check that the image exists, and that the nodes may pull it"

// PodProblem says why a pod does not start.
type PodProblem struct {
	// Container is the name of the container; empty if no container was created yet.
	Container string
	// Reason is that of the kubelet or the scheduler, such as ImagePullBackOff or Unschedulable. It
	// does not alternate while a container is restarted again and again.
	Reason string
	// Detail is a text of Kubernetes; it may be empty. Texts of the process in the container, which
	// may have secrets, are left out.
	Detail string
	// Remedy is what to do.
	Remedy string
}

// String returns the problem in one line, such as: container "web": OOMKilled: ended with exit code
// 137; raise the memory limit.
func (p PodProblem) String() string {
	text := p.Reason
	if p.Container != "" {
		text = fmt.Sprintf("container %q: %s", p.Container, p.Reason)
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	return text
}

// OfPod returns why a pod does not start. It returns false if the pod is healthy, begins, has ended,
// or is being deleted.
func OfPod(pod *corev1.Pod) (PodProblem, bool) {
	if pod.DeletionTimestamp != nil || hasEnded(pod) {
		return PodProblem{}, false
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if problem, found := ofContainer(container); found {
			return problem, true
		}
	}
	for _, condition := range pod.Status.Conditions {
		if isUnschedulable(condition) {
			return PodProblem{
				Reason: condition.Reason, Detail: textOf(condition.Message),
				Remedy: "reduce the requests, add nodes, or correct the volume or the node selector",
			}, true
		}
	}
	return PodProblem{}, false
}

// startGrace is the time that a pod usually needs at most for its volumes and its network.
const startGrace = time.Minute

// OfPodAt is like [OfPod]. It also explains a pod that has waited for its volumes or its network for a
// minute. If it has waited for less, again is the time after which the answer may change without an event.
func OfPodAt(pod *corev1.Pod, now time.Time) (problem PodProblem, fails bool, again time.Duration) {
	if problem, fails = OfPod(pod); fails || pod.DeletionTimestamp != nil || hasEnded(pod) {
		return problem, fails, 0
	}
	for _, condition := range pod.Status.Conditions {
		if !isUnmounted(condition) {
			continue
		}
		if again = condition.LastTransitionTime.Add(startGrace).Sub(now); again > 0 {
			return PodProblem{}, false, again
		}
		detail := "waits for its volumes or its network for more than a minute"
		if mounts := mountsOf(pod, condition); mounts != "" {
			detail += ": it mounts " + mounts
		}
		return PodProblem{
			Reason: containerCreating, Detail: detail,
			Remedy: "create what is missing, or correct its name; kubectl describe pod has the details",
		}, true, 0
	}
	return PodProblem{}, false, 0
}

// isUnmounted reports whether a condition says that volumes or the network of a pod are not ready. Kubelets
// report it since Kubernetes 1.29.
func isUnmounted(condition corev1.PodCondition) bool {
	return condition.Type == corev1.PodReadyToStartContainers && condition.Status == corev1.ConditionFalse
}

// mountsOf returns the objects that a pod mounts, for a message. A reduced pod has them in the condition.
func mountsOf(pod *corev1.Pod, condition corev1.PodCondition) string {
	var mounts []string
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.Secret != nil:
			mounts = append(mounts, "Secret "+volume.Secret.SecretName)
		case volume.ConfigMap != nil:
			mounts = append(mounts, "ConfigMap "+volume.ConfigMap.Name)
		case volume.PersistentVolumeClaim != nil:
			mounts = append(mounts, "PersistentVolumeClaim "+volume.PersistentVolumeClaim.ClaimName)
		}
	}
	if len(mounts) == 0 {
		return textOf(condition.Message)
	}
	return textOf(strings.Join(mounts, ", "))
}

// Of returns the problem with the name of the pod that has it.
func (p PodProblem) Of(pod *corev1.Pod) string { return fmt.Sprintf("pod %s: %s", pod.Name, p) }

// failure is the text of [PodProblem.Of] in a message about the owner of a pod.
var failure = regexp.MustCompile(`\bpod ([a-z0-9][a-z0-9.-]*): ((?:container "[^"]*": )?([A-Za-z]+).*)`)

// FailureIn returns the name of the pod that a message blames with the text of [PodProblem.Of], and why the
// pod does not start. Both are empty for a message without such a text.
func FailureIn(message string) (pod, problem string) {
	match := failure.FindStringSubmatch(message)
	if match == nil {
		return "", ""
	}
	reason := match[3]
	if _, fails := ContainerFailures[reason]; !fails && reason != oomKilled && reason != containerCreating && reason != corev1.PodReasonUnschedulable {
		return "", ""
	}
	return match[1], match[2]
}

// hasEnded reports whether a pod is not started again, for example because it was evicted.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// WorkloadOf returns kind and name of the workload of a pod: of the StatefulSet, DaemonSet or Job that
// controls it, or of the Deployment of its ReplicaSet. The name of such a ReplicaSet is that of the
// Deployment and a hash. Both are empty for a pod without a controller.
func WorkloadOf(pod *corev1.Pod) (kind, name string) {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return "", ""
	}
	if end := strings.LastIndexByte(controller.Name, '-'); controller.Kind == "ReplicaSet" && end > 0 {
		return "Deployment", controller.Name[:end]
	}
	return controller.Kind, controller.Name
}

func isUnschedulable(condition corev1.PodCondition) bool {
	return condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable
}

// ofContainer returns why a container does not run. A container that failed and is restarted has
// one reason, whether it runs, has ended or waits.
func ofContainer(container corev1.ContainerStatus) (PodProblem, bool) {
	problem := PodProblem{Container: container.Name}
	ended := container.State.Terminated
	if ended == nil && !container.Ready {
		ended = container.LastTerminationState.Terminated
	}
	waiting := container.State.Waiting
	_, fails := ContainerFailures[reasonOf(waiting)]
	switch {
	case fails && waiting.Reason != crashLoopBackOff:
		problem.Reason, problem.Detail = waiting.Reason, textOf(waiting.Message)
		if problem.Reason == "ErrImagePull" || problem.Reason == imagePullBackOff {
			// The kubelet alternates between these two and their messages.
			problem.Reason, problem.Detail = imagePullBackOff, fmt.Sprintf("the image %q cannot be pulled", textOf(container.Image))
		}
	case ended != nil && (ended.ExitCode != 0 || fails):
		problem.Reason, problem.Detail = crashLoopBackOff, fmt.Sprintf("the process ends with exit code %d", ended.ExitCode)
		if ended.Reason == oomKilled {
			problem.Reason = oomKilled
		}
	case fails:
		problem.Reason = crashLoopBackOff
	default:
		return PodProblem{}, false
	}
	problem.Remedy = ContainerFailures[problem.Reason]
	if problem.Reason == oomKilled {
		problem.Remedy = "raise the memory limit, or let the process use less"
	}
	return problem, true
}

func reasonOf(waiting *corev1.ContainerStateWaiting) string {
	if waiting == nil {
		return ""
	}
	return waiting.Reason
}

func textOf(text string) string { return message.OneLine(message.Truncate(text, maxPodText)) }

// ReducePod returns a pod with the given metadata, and with the fields of the status that [OfPodAt]
// reads, each bounded. Healthy pods have none. It is idempotent.
func ReducePod(whole *corev1.Pod, metadata metav1.ObjectMeta) *corev1.Pod {
	reduced := &corev1.Pod{ObjectMeta: metadata}
	if hasEnded(whole) {
		return reduced
	}
	for _, container := range slices.Concat(whole.Status.InitContainerStatuses, whole.Status.ContainerStatuses) {
		if _, found := ofContainer(container); found {
			reduced.Status.ContainerStatuses = []corev1.ContainerStatus{reduceContainer(container)}
			return reduced
		}
	}
	for _, condition := range whole.Status.Conditions {
		if isUnmounted(condition) {
			reduced.Status.Conditions = append(reduced.Status.Conditions, corev1.PodCondition{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime, Message: mountsOf(whole, condition),
			})
		}
		if isUnschedulable(condition) {
			reduced.Status.Conditions = []corev1.PodCondition{{
				Type: condition.Type, Status: condition.Status, Reason: condition.Reason, Message: textOf(condition.Message),
			}}
		}
	}
	return reduced
}

func reduceContainer(whole corev1.ContainerStatus) corev1.ContainerStatus {
	reduced := corev1.ContainerStatus{Name: whole.Name}
	problem, _ := ofContainer(whole)
	switch problem.Reason {
	case crashLoopBackOff, oomKilled:
		ended := whole.State.Terminated
		if ended == nil {
			ended = whole.LastTerminationState.Terminated
		}
		reduced.State.Waiting = &corev1.ContainerStateWaiting{Reason: crashLoopBackOff}
		if ended != nil {
			reduced.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, Reason: problem.Reason}
		}
	case imagePullBackOff:
		reduced.Image = textOf(whole.Image)
		reduced.State.Waiting = &corev1.ContainerStateWaiting{Reason: imagePullBackOff}
	default:
		reduced.State.Waiting = &corev1.ContainerStateWaiting{Reason: problem.Reason, Message: problem.Detail}
	}
	return reduced
}
