// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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

// notReady is the reason of a container that runs without becoming ready. The kubelet has no reason
// for it.
const notReady = "NotReady"

// containerFailures are the reasons of the kubelet for a waiting container that do not go away
// before someone changes an object. The value is what to do.
var containerFailures = map[string]string{
	crashLoopBackOff:            "kubectl logs --previous shows why the process ends",
	configError:                 "create the Secret, ConfigMap or key that the message names",
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

// remedyRoot is the remedy of a container that must not run as root, but would.
const remedyRoot = "the container must not run as root: set securityContext.runAsUser to a user other than root that the image supports, " +
	"or use an image that names such a user by its number"

// nonRoot matches the texts of kubelets about containers that must not run as root.
var nonRoot = regexp.MustCompile(`(?i)non-?root`)

const remedyPull = "check that the image exists, and that the nodes may pull it"

// PodProblem says why a pod does not start or is not ready.
type PodProblem struct {
	// Container is the name of the container; empty if no container was created yet.
	Container string
	// Reason is that of the kubelet or the scheduler, such as ImagePullBackOff or Unschedulable, or
	// NotReady. It does not alternate while a container is restarted again and again.
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

// Crashed reports whether a process of the container has ended.
func (p PodProblem) Crashed() bool { return p.Reason == crashLoopBackOff || p.Reason == oomKilled }

const (
	// startGrace is the time that a pod usually needs at most for its volumes and its network, and a
	// container from its start until it is ready.
	startGrace = time.Minute
	// backOffReset is the time after which the kubelet takes a container that runs for one that no
	// longer crashes.
	backOffReset = 10 * time.Minute
)

// OfPodAt returns why a pod does not start, or why it runs without becoming ready. It returns false
// if the pod is healthy, begins, has ended, or is being deleted. again is the time after which the
// answer may change without an event; it is 0 if only an event changes the answer.
func OfPodAt(pod *corev1.Pod, now time.Time) (problem PodProblem, fails bool, again time.Duration) {
	if pod.DeletionTimestamp != nil || hasEnded(pod) {
		return PodProblem{}, false, 0
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		problem, fails = ofContainer(container)
		if running := container.State.Running; fails && running != nil {
			again = max(0, running.StartedAt.Add(backOffReset).Sub(now))
			fails = again > 0
		}
		if fails {
			return problem, true, again
		}
	}
	for _, condition := range pod.Status.Conditions {
		switch {
		case isUnschedulable(condition):
			return PodProblem{
				Reason: condition.Reason, Detail: textOf(condition.Message),
				Remedy: "reduce the requests, add nodes, or correct the volume or the node selector",
			}, true, 0
		case isUnmounted(condition):
			return ofMounts(pod, condition, now)
		}
	}
	if i := slices.IndexFunc(pod.Status.ContainerStatuses, runsUnready); i >= 0 {
		return ofUnready(pod, pod.Status.ContainerStatuses[i], now)
	}
	return PodProblem{}, false, 0
}

// ofMounts explains a pod that has waited for its volumes or its network for a minute.
func ofMounts(pod *corev1.Pod, condition corev1.PodCondition, now time.Time) (problem PodProblem, fails bool, again time.Duration) {
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

// ofUnready explains a container that has run for a minute, but is not ready.
func ofUnready(pod *corev1.Pod, container corev1.ContainerStatus, now time.Time) (problem PodProblem, fails bool, again time.Duration) {
	unready := unreadyCondition(pod, container)
	if again = unready.LastTransitionTime.Add(startGrace).Sub(now); again > 0 {
		return PodProblem{}, false, again
	}
	return PodProblem{
		Container: container.Name, Reason: notReady, Detail: fmt.Sprintf("it runs, but its %s has not succeeded for more than a minute", unready.Message),
		Remedy: "correct the process, its port or the probe; kubectl describe pod shows how the probe fails",
	}, true, 0
}

// runsUnready reports whether a container runs, but is not ready. This is normal for an init
// container.
func runsUnready(container corev1.ContainerStatus) bool {
	return container.State.Running != nil && !container.Ready
}

// unreadyCondition returns the condition of a pod with a container that runs unready: since when,
// and by which probe. A reduced pod has the condition.
func unreadyCondition(pod *corev1.Pod, container corev1.ContainerStatus) corev1.PodCondition {
	unready := corev1.PodCondition{
		Type: corev1.ContainersReady, Status: corev1.ConditionFalse,
		LastTransitionTime: container.State.Running.StartedAt, Message: probeOf(pod, container),
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type != corev1.ContainersReady || condition.Status != corev1.ConditionFalse {
			continue
		}
		if unready.LastTransitionTime.Before(&condition.LastTransitionTime) {
			unready.LastTransitionTime = condition.LastTransitionTime
		}
		if len(pod.Spec.Containers) == 0 {
			unready.Message = textOf(condition.Message)
		}
	}
	return unready
}

// probeOf names the probe that a container waits for, with its port and path. The query of the
// path, which may have secrets, is left out.
func probeOf(pod *corev1.Pod, container corev1.ContainerStatus) string {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container.Name })
	if i < 0 {
		return "readiness probe"
	}
	spec := pod.Spec.Containers[i]
	name, probe := "readiness probe", spec.ReadinessProbe
	if spec.StartupProbe != nil && container.Started != nil && !*container.Started {
		name, probe = "startup probe", spec.StartupProbe
	}
	switch {
	case probe == nil:
	case probe.HTTPGet != nil:
		path, _, _ := strings.Cut(probe.HTTPGet.Path, "?")
		name += fmt.Sprintf(" (port %s, path %s)", portOf(spec, probe.HTTPGet.Port), cmp.Or(path, "/"))
	case probe.TCPSocket != nil:
		name += fmt.Sprintf(" (port %s)", portOf(spec, probe.TCPSocket.Port))
	case probe.GRPC != nil:
		name += fmt.Sprintf(" (port %d)", probe.GRPC.Port)
	}
	return textOf(name)
}

// portOf returns the number of a port of a container, or its name if the container does not declare
// it.
func portOf(spec corev1.Container, port intstr.IntOrString) string {
	for _, declared := range spec.Ports {
		if port.Type == intstr.String && declared.Name == port.StrVal {
			return fmt.Sprint(declared.ContainerPort)
		}
	}
	return port.String()
}

// isUnmounted reports whether a condition says that volumes or the network of a pod are not ready.
// Kubelets report it since Kubernetes 1.29.
func isUnmounted(condition corev1.PodCondition) bool {
	return condition.Type == corev1.PodReadyToStartContainers && condition.Status == corev1.ConditionFalse
}

// mountsOf returns the objects that a pod mounts, for a message. A reduced pod has them in the
// condition.
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

// FailureIn returns the name of the pod that a message blames with the text of [PodProblem.Of], and
// why the pod is not ready. Both are empty for a message without such a text.
func FailureIn(message string) (pod, problem string) {
	match := failure.FindStringSubmatch(message)
	if match == nil {
		return "", ""
	}
	reason := match[3]
	_, fails := containerFailures[reason]
	if !fails && !slices.Contains([]string{oomKilled, containerCreating, notReady, corev1.PodReasonUnschedulable}, reason) {
		return "", ""
	}
	return match[1], match[2]
}

// hasEnded reports whether a pod is not started again, for example because it was evicted.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// WorkloadOf returns kind and name of the workload of a pod: of the StatefulSet, DaemonSet or Job
// that controls it, or of the Deployment of its ReplicaSet. The name of such a ReplicaSet is that
// of the Deployment and a hash. Both are empty for a pod without a controller.
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

// manyRestarts is the number of restarts from which a process that ends without an error is in a
// loop, for example because its liveness probe fails.
const manyRestarts = 2

// ofContainer returns why a container does not run. A container that failed and is restarted has
// one reason, whether it runs, has ended or waits. For a container that runs, the reason holds
// until [backOffReset].
func ofContainer(container corev1.ContainerStatus) (PodProblem, bool) {
	problem := PodProblem{Container: container.Name}
	ended := container.State.Terminated
	if ended == nil && !container.Ready {
		ended = container.LastTerminationState.Terminated
	}
	waiting := container.State.Waiting
	_, fails := containerFailures[reasonOf(waiting)]
	switch {
	case fails && waiting.Reason != crashLoopBackOff:
		problem.Reason, problem.Detail = waiting.Reason, textOf(waiting.Message)
		if problem.Reason == "ErrImagePull" || problem.Reason == imagePullBackOff {
			// The kubelet alternates between these two and their messages.
			problem.Reason, problem.Detail = imagePullBackOff, fmt.Sprintf("the image %q cannot be pulled", textOf(container.Image))
		}
	case ended != nil && (ended.ExitCode != 0 || fails || container.RestartCount >= manyRestarts && !container.Ready):
		problem.Reason, problem.Detail = crashLoopBackOff, fmt.Sprintf("the process ends with exit code %d", ended.ExitCode)
		if ended.Reason == oomKilled {
			problem.Reason = oomKilled
		}
	case fails:
		problem.Reason = crashLoopBackOff
	default:
		return PodProblem{}, false
	}
	problem.Remedy = containerFailures[problem.Reason]
	if problem.Reason == configError && nonRoot.MatchString(problem.Detail) {
		problem.Remedy = remedyRoot
	}
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
