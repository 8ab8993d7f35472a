// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/example/demoapp-controller/pkg/refusal"
)

const (
	// maxPodText bounds the texts of the status of a pod.
	maxPodText = 300
	// maxEventText bounds the texts of events. Texts of container runtimes end with the cause.
	maxEventText = 800
)

const (
	// startGrace is the time that a pod usually needs at most for its volumes and its network, a
	// container from its start until it is ready, and a kubelet to end a pod after its grace period.
	startGrace = time.Minute
	// backOffReset is the running time after which the kubelet no longer counts a container as
	// crashing.
	backOffReset = 10 * time.Minute
	// manyRestarts is the number of restarts from which a process that ends without an error is in a
	// loop, for example because its liveness probe fails.
	manyRestarts = 2
)

// PodFacts are the known facts about a pod. Only Pod and Now are required.
type PodFacts struct {
	// Pod is the pod, or what [ReducePod] keeps of it.
	Pod *corev1.Pod
	// Node is the node of the pod; nil if it was not read.
	Node *corev1.Node
	// Events are events of the pod, in any order.
	Events []corev1.Event
	Now    time.Time
}

// Explain returns why a pod does not start, is not ready, or has failed. The newest fact decides: the
// node, then the status of the pod, and events only for facts that the status does not have. fails
// says that the pod does not go on by itself. Otherwise, the problem says why the pod waits; it is
// zero for a pod that is healthy, begins, or is being deleted. again is the time after which the
// answer may change without an event of a watch; 0 for never.
func Explain(f PodFacts) (problem PodProblem, fails bool, again time.Duration) {
	switch {
	case f.Pod.DeletionTimestamp != nil:
		return f.ofTerminating()
	case f.Pod.Status.Phase == corev1.PodSucceeded:
		return PodProblem{}, false, 0
	case f.Pod.Status.Phase == corev1.PodFailed:
		return f.ofFailed(), true, 0
	case f.nodeIsAway():
		return f.awayProblem("does not answer"), true, 0
	}
	if problem, fails, again = f.ofContainers(); fails {
		return problem, true, again
	}
	if scheduled := conditionOfPod(f.Pod, corev1.PodScheduled); scheduled.Status == corev1.ConditionFalse {
		return f.ofUnscheduled(scheduled)
	}
	if problem, fails, again = f.ofStart(); problem.Reason != "" || again > 0 {
		return problem, fails, again
	}
	if i := slices.IndexFunc(f.Pod.Status.ContainerStatuses, runsUnready); i >= 0 {
		return f.ofUnready(f.Pod.Status.ContainerStatuses[i])
	}
	return PodProblem{}, false, 0
}

// conditionOfPod returns a condition; zero without it.
func conditionOfPod(pod *corev1.Pod, conditionType corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == conditionType {
			return condition
		}
	}
	return corev1.PodCondition{}
}

// ofTerminating explains a pod that should be gone. The deletion timestamp is the end of its grace
// period.
func (f PodFacts) ofTerminating() (problem PodProblem, fails bool, again time.Duration) {
	if again = f.Pod.DeletionTimestamp.Add(startGrace).Sub(f.Now); again > 0 || len(f.Pod.Finalizers) > 0 {
		return PodProblem{}, false, max(0, again)
	}
	return f.awayProblem("does not answer: the pod should be gone by now"), true, 0
}

// nodeIsAway reports whether nobody answers for the pod. The node controller then sets Ready to False,
// without a reason, and changes no other condition of the pod: a kubelet always gives a reason.
func (f PodFacts) nodeIsAway() bool {
	if f.Node != nil {
		for _, condition := range f.Node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status != corev1.ConditionTrue
			}
		}
	}
	if isUnanswered(f.Pod) {
		return true
	}
	last := f.lastEvent(func(corev1.Event) bool { return true })
	return last != nil && last.Reason == nodeNotReady
}

func isUnanswered(pod *corev1.Pod) bool {
	ready := conditionOfPod(pod, corev1.PodReady)
	return (ready.Status == corev1.ConditionFalse || ready.Status == corev1.ConditionUnknown) && ready.Reason == "" &&
		conditionOfPod(pod, corev1.ContainersReady).Status == corev1.ConditionTrue
}

func (f PodFacts) awayProblem(text string) PodProblem {
	problem := PodProblem{Reason: nodeNotReady, Detail: "the node " + text, Remedy: remedyNode}
	if name := f.Pod.Spec.NodeName; name != "" {
		problem.Detail = fmt.Sprintf("the node %q %s", name, text)
		problem.Objects = []PodObject{{"Node", name}}
	}
	return problem
}

// ofFailed explains a pod that has failed and is not started again. A pod that was ended from outside,
// for example by an eviction, has a reason.
func (f PodFacts) ofFailed() PodProblem {
	if reason := f.Pod.Status.Reason; reason != "" {
		return PodProblem{Reason: reason, Detail: textOf(f.Pod.Status.Message, maxPodText), Remedy: podFailures[reason]}
	}
	if problem, fails, _ := f.ofContainers(); fails {
		if problem.Crashed() {
			problem.Remedy = strings.Replace(problem.Remedy, " --previous", "", 1)
		}
		return problem
	}
	return PodProblem{Reason: podFailed, Detail: "the pod has failed", Remedy: remedyDescribe}
}

// ofContainers returns why the first of the containers that fail does.
func (f PodFacts) ofContainers() (problem PodProblem, fails bool, again time.Duration) {
	for _, container := range slices.Concat(f.Pod.Status.InitContainerStatuses, f.Pod.Status.ContainerStatuses) {
		problem, fails = ofContainer(container)
		if running := container.State.Running; fails && running != nil {
			again = max(0, running.StartedAt.Add(backOffReset).Sub(f.Now))
			fails = again > 0
		}
		if fails {
			return f.withEvents(container, problem), true, again
		}
	}
	return PodProblem{}, false, 0
}

// withEvents adds facts about a container that only events have: how a pull fails, and how the
// liveness probe failed in the life of the last process.
func (f PodFacts) withEvents(container corev1.ContainerStatus, problem PodProblem) PodProblem {
	ended := cmp.Or(container.State.Terminated, container.LastTerminationState.Terminated)
	event := f.lastEvent(func(e corev1.Event) bool {
		switch seen := lastSeen(&e); {
		case !isAbout(e, container.Name):
			return false
		case problem.Reason == imagePullBackOff:
			return e.Reason == "Failed" && !strings.HasPrefix(e.Message, "Error: ")
		case problem.Crashed() && ended != nil:
			return e.Reason == "Unhealthy" && !strings.HasPrefix(e.Message, "Readiness") &&
				!seen.Before(ended.StartedAt.Time) && !seen.After(ended.FinishedAt.Time)
		default:
			return false
		}
	})
	if event != nil {
		problem.Detail += ": " + eventText(event)
	} else if waiting := container.State.Waiting; problem.Reason == imagePullBackOff && waiting.Message != "" {
		problem.Detail += ": " + textOf(waiting.Message, maxPodText)
	}
	return problem
}

// isAbout reports whether an event of a pod may be about a container. The field path of an event is
// empty, or names the container as in spec.containers{web}.
func isAbout(e corev1.Event, container string) bool {
	path := e.InvolvedObject.FieldPath
	return path == "" || strings.HasSuffix(path, "{"+container+"}")
}

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
		problem.Reason, problem.Detail = waiting.Reason, textOf(waiting.Message, maxPodText)
		if problem.Reason == "ErrImagePull" || problem.Reason == imagePullBackOff {
			// The kubelet alternates between these two and their messages.
			problem.Reason, problem.Detail = imagePullBackOff, fmt.Sprintf("the image %q cannot be pulled", textOf(container.Image, maxPodText))
		}
		problem.Objects = sourcesIn(problem.Detail)
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
	problem.Remedy = cmp.Or(containerFailures[problem.Reason], podFailures[problem.Reason])
	if problem.Reason == configError && refusal.RootRefused.In(problem.Detail) {
		problem.Remedy = remedyRoot
	}
	return problem, true
}

func reasonOf(waiting *corev1.ContainerStateWaiting) string {
	if waiting == nil {
		return ""
	}
	return waiting.Reason
}

// ofUnscheduled says why no node takes a pod.
func (f PodFacts) ofUnscheduled(scheduled corev1.PodCondition) (problem PodProblem, fails bool, again time.Duration) {
	remedy, fails := podFailures[scheduled.Reason]
	problem = PodProblem{Reason: scheduled.Reason, Detail: textOf(scheduled.Message, maxPodText), Remedy: remedy}
	if !fails {
		problem.Reason, problem.Detail = "Pending", cmp.Or(problem.Detail, "the scheduler has not looked at the pod yet")
		return problem, false, 0
	}
	if scheduled.Reason == corev1.PodReasonSchedulingGated {
		return problem, false, 0 // A controller, such as a queue of jobs, set the gates and removes them.
	}
	if claim := refusal.ClaimMissing.Subject(scheduled.Message); claim != "" {
		problem.Objects, problem.Remedy = []PodObject{{"PersistentVolumeClaim", claim}}, remedyCreate
	} else if refusal.ClaimsUnbound.In(scheduled.Message) {
		problem.Objects, problem.Remedy = claimsOf(f.Pod), "kubectl describe persistentvolumeclaim shows why the volume is missing"
	}
	return problem, true, 0
}

// claimsOf returns the claims that a pod mounts. A reduced pod has none.
func claimsOf(pod *corev1.Pod) []PodObject {
	var objects []PodObject
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			objects = append(objects, PodObject{"PersistentVolumeClaim", volume.PersistentVolumeClaim.ClaimName})
		case volume.Ephemeral != nil:
			objects = append(objects, PodObject{"PersistentVolumeClaim", pod.Name + "-" + volume.Name})
		}
	}
	return objects
}

// ofStart explains a pod whose volumes or network are not ready. Kubelets report this in a condition,
// which has no reason: that is in events alone. Events of a pod whose condition is True are history.
func (f PodFacts) ofStart() (problem PodProblem, fails bool, again time.Duration) {
	ready := conditionOfPod(f.Pod, corev1.PodReadyToStartContainers)
	if ready.Status == corev1.ConditionTrue || ready.Status == "" && hasStarted(f.Pod) {
		return PodProblem{}, false, 0
	}
	event := f.lastEvent(func(e corev1.Event) bool {
		// After two minutes, the kubelet adds to the cause that it gives up for now.
		return isStartFailure(e.Reason) && !strings.HasPrefix(e.Message, "Unable to attach or mount volumes")
	})
	switch {
	case event != nil && !lastSeen(event).Before(ready.LastTransitionTime.Time):
		problem = PodProblem{Reason: event.Reason, Detail: eventText(event), Remedy: podFailures[event.Reason]}
		if problem.Objects = sourcesIn(problem.Detail); len(problem.Objects) > 0 {
			problem.Remedy = remedyCreate
		}
		return problem, true, 0
	case ready.Status == "":
		return PodProblem{}, false, 0
	}
	problem = PodProblem{Reason: containerCreating, Detail: "waits for its volumes or its network"}
	if again = ready.LastTransitionTime.Add(startGrace).Sub(f.Now); again > 0 {
		return problem, false, again
	}
	problem.Detail += " for more than a minute"
	problem.Remedy = remedyDescribe
	return problem, true, 0
}

func isStartFailure(reason string) bool {
	return slices.Contains([]string{failedMount, failedAttach, failedMap, failedSandbox, noNetwork, failedDevices}, reason)
}

// hasStarted reports whether a container of a pod was created.
func hasStarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	})
}

// sourcesIn returns the Secrets and ConfigMaps that a message of the kubelet blames.
func sourcesIn(text string) []PodObject {
	var objects []PodObject
	for _, name := range refusal.SecretMissing.Subjects(text) {
		objects = append(objects, PodObject{"Secret", name})
	}
	for _, name := range refusal.ConfigMapMissing.Subjects(text) {
		objects = append(objects, PodObject{"ConfigMap", name})
	}
	return objects
}

// ofUnready explains a container that runs, but is not ready.
func (f PodFacts) ofUnready(container corev1.ContainerStatus) (problem PodProblem, fails bool, again time.Duration) {
	unready := unreadyCondition(f.Pod, container)
	problem = PodProblem{Container: container.Name, Reason: notReady, Detail: fmt.Sprintf("it runs, but its %s has not succeeded", unready.Message)}
	event := f.lastEvent(func(e corev1.Event) bool { return e.Reason == "Unhealthy" && isAbout(e, container.Name) })
	saysHow := event != nil && !lastSeen(event).Before(container.State.Running.StartedAt.Time)
	again = unready.LastTransitionTime.Add(startGrace).Sub(f.Now)
	if again <= 0 {
		problem.Detail += " for more than a minute"
		problem.Remedy = podFailures[notReady]
	}
	if saysHow {
		problem.Detail += ": " + eventText(event)
		problem.Remedy, _, _ = strings.Cut(problem.Remedy, ";")
	}
	return problem, again <= 0, max(0, again)
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
	if condition := conditionOfPod(pod, corev1.ContainersReady); condition.Status == corev1.ConditionFalse {
		if unready.LastTransitionTime.Before(&condition.LastTransitionTime) {
			unready.LastTransitionTime = condition.LastTransitionTime
		}
		if len(pod.Spec.Containers) == 0 {
			unready.Message = textOf(condition.Message, maxPodText)
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
	return textOf(name, maxPodText)
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
