// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/health"
)

// ofPod says why a pod is not ready.
func (f facts) ofPod(node *Node) finding {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(node.Object.Object, &pod); err != nil {
		return finding{verdict: Waits, text: err.Error(), commands: []string{kubectl("describe", node.Reference)}}
	}
	found := finding{verdict: Waits, text: node.Health.Message, commands: []string{kubectl("describe", node.Reference)}}
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" {
		found.verdict, found.text = NeedsPerson, fmt.Sprintf("%s: %s", pod.Status.Reason, pod.Status.Message)
		return found
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if stopped, ok := f.ofContainer(node, container); ok {
			return stopped
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return f.ofUnscheduled(node, &pod, condition)
		}
	}
	for _, reason := range []string{"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "Unhealthy"} {
		if message := f.lastEvent(node, reason); message != "" {
			found.verdict, found.text = NeedsPerson, message
			found.next = mentionedVolume(node, message)
			return found
		}
	}
	if problem, fails, _ := health.OfPodAt(&pod, f.now); fails {
		found.verdict, found.text = NeedsPerson, problem.String()
	}
	return found
}

// ofContainer says why a container does not run.
func (f facts) ofContainer(node *Node, container corev1.ContainerStatus) (finding, bool) {
	describe := kubectl("describe", node.Reference)
	logs := fmt.Sprintf("kubectl logs %s -n %s -c %s --previous", node.Name, node.Namespace, container.Name)
	terminated := container.LastTerminationState.Terminated
	if container.State.Terminated != nil && container.State.Terminated.ExitCode != 0 {
		terminated = container.State.Terminated
	}
	waiting, remedy := container.State.Waiting, ""
	if waiting != nil {
		remedy = health.ContainerFailures[waiting.Reason]
	}
	switch {
	case remedy != "":
		found := finding{verdict: NeedsPerson, commands: []string{describe}}
		found.text = fmt.Sprintf("Container %s: %s", container.Name, waiting.Reason)
		switch {
		case waiting.Reason == "CrashLoopBackOff" && terminated != nil:
			found.text += ", " + exit(terminated)
			found.commands = []string{logs}
		case strings.Contains(waiting.Reason, "Image"):
			found.text += fmt.Sprintf(" of image %s: %s", container.Image, cmp.Or(f.lastEvent(node, "Failed"), waiting.Message))
		default:
			found.text += ": " + waiting.Message
			found.next = mentionedVolume(node, waiting.Message)
		}
		found.text += "; " + remedy
		return found, true
	case container.State.Terminated != nil && container.State.Terminated.ExitCode != 0:
		return finding{verdict: NeedsPerson, text: fmt.Sprintf("Container %s %s", container.Name, exit(terminated)), commands: []string{strings.TrimSuffix(logs, " --previous")}}, true
	default:
		return finding{}, false
	}
}

// exit says how a container ended.
func exit(terminated *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("ended with exit code %d", terminated.ExitCode)
	if terminated.Reason != "" && terminated.Reason != "Error" {
		text += " (" + terminated.Reason + ")"
	}
	if terminated.Message != "" {
		text += ": " + terminated.Message
	}
	return text
}

// volumeSource is a Secret or ConfigMap in a message of the kubelet, such as: secret "web" not
// found, or: couldn't find key token in Secret shop/web.
var volumeSource = regexp.MustCompile(`(?i)\b(secret|configmap)s? (?:"([^"]+)" not found|[a-z0-9-]+/([a-z0-9.-]+))`)

// mentionedVolume returns the Secret or ConfigMap that a message of the kubelet blames.
func mentionedVolume(node *Node, message string) *Reference {
	match := volumeSource.FindStringSubmatch(message)
	if match == nil {
		return nil
	}
	kind := configMaps
	if strings.EqualFold(match[1], "secret") {
		kind = secrets
	}
	return &Reference{kind, node.Namespace, cmp.Or(match[2], match[3])}
}

// missingClaim is a claim in a message of the scheduler.
var missingClaim = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)

// ofUnscheduled says why no node takes a pod.
func (f facts) ofUnscheduled(node *Node, pod *corev1.Pod, condition corev1.PodCondition) finding {
	found := finding{verdict: NeedsPerson, text: condition.Message, commands: []string{kubectl("describe", node.Reference)}}
	if match := missingClaim.FindStringSubmatch(condition.Message); match != nil {
		found.next = &Reference{claims, node.Namespace, match[1]}
		return found
	}
	if strings.Contains(condition.Message, "PersistentVolumeClaim") {
		found.verdict = Waits // The claims decide.
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				found.others = append(found.others, Reference{claims, node.Namespace, volume.PersistentVolumeClaim.ClaimName})
			}
		}
		if len(found.others) > 0 {
			found.next, found.others = &found.others[0], found.others[1:]
		}
		return found
	}
	if condition.Message == "" {
		found.verdict, found.text = Waits, "The scheduler has not looked at the pod yet"
	}
	if gated := condition.Reason == corev1.PodReasonSchedulingGated; gated {
		found.text = "The pod has scheduling gates"
	}
	return found
}

// ofOther says why any other object is not healthy: what Kubernetes reports in its conditions or
// its events, or what is below it.
func (f facts) ofOther(node *Node) finding {
	found := finding{verdict: Waits, text: node.Health.Message, commands: []string{kubectl("describe", node.Reference)}}
	switch node.GroupKind() {
	case namespaces.GroupKind():
		return namespaceFinding(node)
	case claims.GroupKind():
		return f.ofClaim(node)
	}
	if node.Health.PodsRefused != "" {
		found.verdict, found.text = NeedsPerson, node.Health.PodsRefused
		if refused, ok := refusalOf(node, node.Health.PodsRefused); ok {
			return refused
		}
		return found
	}
	if child := worst(node); child != nil {
		found.child = child
		return found
	}
	if message := f.lastEvent(node, "FailedCreate"); message != "" && len(node.Children) == 0 {
		found.verdict, found.text = NeedsPerson, message
		if refused, ok := refusalOf(node, message); ok {
			return refused
		}
	}
	if node.Health.Status == "Failed" {
		found.verdict = NeedsPerson
	}
	return found
}

// ofClaim says why a PersistentVolumeClaim has no volume.
func (f facts) ofClaim(node *Node) finding {
	found := finding{verdict: Waits, text: node.Health.Message, commands: []string{kubectl("describe", node.Reference)}}
	for _, reason := range []string{"ProvisioningFailed", "FailedBinding", "WaitForFirstConsumer", "ExternalProvisioning"} {
		message := f.lastEvent(node, reason)
		if message == "" {
			continue
		}
		found.text = message
		if reason == "ProvisioningFailed" || reason == "FailedBinding" {
			found.verdict = NeedsPerson
		}
		if match := regexp.MustCompile(`storageclass(?:\.storage\.k8s\.io)? "([^"]+)" not found`).FindStringSubmatch(message); match != nil {
			found.next = &Reference{GroupVersionKind: storageClasses, Name: match[1]}
		}
		return found
	}
	return found
}

// ofTerminating says what the deletion of any other object waits for.
func (f facts) ofTerminating(node *Node) finding {
	if node.GroupKind() == namespaces.GroupKind() {
		return namespaceFinding(node)
	}
	if finalizers := node.Object.GetFinalizers(); len(finalizers) > 0 {
		return finalizersOfOthers(node, finalizers)
	}
	if node.GroupKind() == (schema.GroupKind{Kind: "Pod"}) {
		grace := node.Object.GetDeletionGracePeriodSeconds()
		if grace != nil && f.now.Sub(node.Object.GetDeletionTimestamp().Time).Seconds() > 60 {
			return finding{
				verdict:  NeedsPerson,
				text:     "The pod should be gone by now: the kubelet of its node does not answer",
				commands: []string{"kubectl get nodes", kubectl("get", node.Reference) + " -o wide"},
			}
		}
	}
	return finding{verdict: Waits, text: "The object is being deleted", commands: []string{kubectl("describe", node.Reference)}}
}

// lastEvent returns the message of the last event of an object with a reason; empty without one.
func (f facts) lastEvent(node *Node, reason string) string {
	var found *corev1.Event
	for i := range f.events {
		event := &f.events[i]
		if event.Reason == reason && event.InvolvedObject.UID == node.Object.GetUID() && (found == nil || LastSeen(*found).Before(LastSeen(*event))) {
			found = event
		}
	}
	if found == nil {
		return ""
	}
	return found.Message
}
