// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/refusal"
)

// ofPod says why a pod is not ready.
func (f facts) ofPod(node *Node) finding {
	found := finding{verdict: Waits, text: node.Health.Message, commands: []string{kubectl("describe", node.Reference)}}
	pod, err := podOf(node)
	if err != nil {
		found.text = err.Error()
		return found
	}
	problem, fails, _ := health.Explain(health.PodFacts{Pod: pod, Node: f.node, Events: f.events, Now: f.now})
	if problem.Reason == "" {
		return found
	}
	found.text = problem.String()
	if fails {
		found.verdict = NeedsPerson
	}
	for _, object := range problem.Objects {
		found.others = append(found.others, Reference{podObjects[object.Kind], node.Namespace, object.Name})
	}
	if len(found.others) > 0 {
		found.next, found.others = &found.others[0], found.others[1:]
		if found.next.GroupVersionKind == claims {
			found.verdict = Waits // The claims decide.
		}
	}
	if problem.Crashed() {
		found.commands = []string{logsOf(pod, problem.Container)}
	}
	return found
}

// podObjects are the kinds of the objects that keep a pod from being ready.
var podObjects = map[string]schema.GroupVersionKind{
	nodes.Kind: nodes, secrets.Kind: secrets, configMaps.Kind: configMaps, claims.Kind: claims,
}

func podOf(node *Node) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, runtime.DefaultUnstructuredConverter.FromUnstructured(node.Object.Object, pod)
}

// logsOf returns the command that shows the logs of the last process of a container.
func logsOf(pod *corev1.Pod, container string) string {
	logs := fmt.Sprintf("kubectl logs %s -n %s -c %s", pod.Name, pod.Namespace, container)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container && status.State.Terminated == nil {
			logs += " --previous"
		}
	}
	return logs
}

// ofOther says why any other object is not healthy: it has the conditions or events that Kubernetes
// reports, or the objects below the object.
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
	if child := f.worst(node); child != nil {
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

// ofTerminating says why the deletion of any other object waits.
func (f facts) ofTerminating(node *Node) finding {
	if node.GroupKind() == namespaces.GroupKind() {
		return namespaceFinding(node)
	}
	if finalizers := node.Object.GetFinalizers(); len(finalizers) > 0 {
		return finalizersOfOthers(node, finalizers)
	}
	if node.GroupVersionKind == pods {
		if found := f.ofPod(node); found.verdict == NeedsPerson {
			return found
		}
	}
	return finding{verdict: Waits, text: "The object is being deleted", commands: []string{kubectl("describe", node.Reference)}}
}

// lastEvent returns the message of the last event of an object with a reason; empty without one.
func (f facts) lastEvent(node *Node, reason string) string {
	var found *corev1.Event
	for i := range f.events {
		event := &f.events[i]
		if event.Reason == reason && event.InvolvedObject.UID == node.Object.GetUID() && (found == nil || health.LastSeen(*found).Before(health.LastSeen(*event))) {
			found = event
		}
	}
	if found == nil {
		return ""
	}
	return found.Message
}
