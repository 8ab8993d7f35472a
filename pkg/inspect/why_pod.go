// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/refusal"
)

// ofPod says why a pod is not ready.
func (f facts) ofPod(node *Node) finding {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(node.Object.Object, &pod); err != nil {
		return finding{verdict: Waits, text: err.Error(), commands: []string{kubectl("describe", node.Reference)}}
	}
	found := finding{verdict: Waits, text: node.Health.Message, commands: []string{kubectl("describe", node.Reference)}}
	if pod.Status.Phase == corev1.PodFailed {
		if pod.Status.Reason != "" {
			found.verdict, found.text = NeedsPerson, fmt.Sprintf("%s: %s", pod.Status.Reason, pod.Status.Message)
			return found
		}
		pod.Status.Phase = "" // Health has no problem of a pod that has ended. Its containers have one.
	}
	problem, fails, _ := health.OfPodAt(&pod, f.now)
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if fails && container.Name == problem.Container && container.State.Running == nil {
			return f.ofContainer(node, container, problem)
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
	if fails {
		found.verdict, found.text = NeedsPerson, problem.String()
	}
	return found
}

// ofContainer says more than health about the problem of a container that does not run.
func (f facts) ofContainer(node *Node, container corev1.ContainerStatus, problem health.PodProblem) finding {
	found := finding{verdict: NeedsPerson, commands: []string{kubectl("describe", node.Reference)}}
	ended := cmp.Or(container.State.Terminated, container.LastTerminationState.Terminated)
	message := problem.Detail
	if waiting := container.State.Waiting; waiting != nil {
		message = waiting.Message
	}
	switch {
	case problem.Crashed() && ended != nil:
		logs := fmt.Sprintf("kubectl logs %s -n %s -c %s", node.Name, node.Namespace, container.Name)
		if container.State.Terminated == nil {
			logs += " --previous"
		}
		found.commands = []string{logs}
		found.text = fmt.Sprintf("Container %s ended with exit code %d (%s)", container.Name, ended.ExitCode, problem.Reason)
	case strings.Contains(problem.Reason, "Image"):
		found.text = fmt.Sprintf("Container %s: %s of image %s: %s", container.Name, problem.Reason, container.Image, cmp.Or(f.lastEvent(node, "Failed"), message))
	default:
		found.text = fmt.Sprintf("Container %s: %s: %s", container.Name, problem.Reason, message)
		found.next = mentionedVolume(node, message)
	}
	found.text += "; " + problem.Remedy
	return found
}

// mentionedVolume returns the Secret or ConfigMap that a message of the kubelet blames.
func mentionedVolume(node *Node, message string) *Reference {
	if secret := refusal.SecretMissing.Subject(message); secret != "" {
		return &Reference{secrets, node.Namespace, secret}
	}
	if config := refusal.ConfigMapMissing.Subject(message); config != "" {
		return &Reference{configMaps, node.Namespace, config}
	}
	return nil
}

// ofUnscheduled says why no node takes a pod.
func (f facts) ofUnscheduled(node *Node, pod *corev1.Pod, condition corev1.PodCondition) finding {
	found := finding{verdict: NeedsPerson, text: condition.Message, commands: []string{kubectl("describe", node.Reference)}}
	if claim := refusal.ClaimMissing.Subject(condition.Message); claim != "" {
		found.next = &Reference{claims, node.Namespace, claim}
		return found
	}
	if refusal.ClaimsUnbound.In(condition.Message) {
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
		if class := refusal.StorageClassMissing.Subject(message); class != "" {
			found.next = &Reference{GroupVersionKind: storageClasses, Name: class}
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
