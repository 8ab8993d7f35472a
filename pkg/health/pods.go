// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/message"
)

// Reasons of the kubelet why a container does not run.
const (
	imagePullBackOff  = "ImagePullBackOff"
	crashLoopBackOff  = "CrashLoopBackOff"
	configError       = "CreateContainerConfigError"
	containerCreating = "ContainerCreating"
	oomKilled         = "OOMKilled"
)

// Reasons of this package, for pods without a reason in their status.
const (
	// notReady is the reason of a container that runs without becoming ready.
	notReady = "NotReady"
	// nodeNotReady is the reason of a pod whose kubelet does not answer. The node controller uses it in
	// events.
	nodeNotReady = "NodeNotReady"
	// podFailed is the reason of a pod that failed without a reason.
	podFailed = "Failed"
)

// Reasons of events about a pod whose containers cannot be created yet.
const (
	failedMount   = "FailedMount"
	failedAttach  = "FailedAttachVolume"
	failedMap     = "FailedMapVolume"
	failedSandbox = "FailedCreatePodSandBox"
	noNetwork     = "NetworkNotReady"
	failedDevices = "FailedPrepareDynamicResources"
)

const (
	remedyPull     = "check that the image exists, and that the nodes may pull it"
	remedyDescribe = "kubectl describe pod has the details"
	remedyCreate   = "create what is missing, or correct its name"
	remedyNode     = "bring the node back, or delete it"
)

// containerFailures are the reasons of the kubelet for a waiting container that do not go away
// before someone changes an object. The value is what to do.
var containerFailures = map[string]string{
	crashLoopBackOff:            "kubectl logs --previous shows why the process ends",
	configError:                 "create the Secret, ConfigMap or key that the message names",
	"CreateContainerError":      remedyDescribe,
	"ErrImageNeverPull":         "use an image that the nodes have",
	"ErrImagePull":              remedyPull,
	"ImageInspectError":         remedyPull,
	imagePullBackOff:            remedyPull,
	"InvalidImageName":          "correct the name of the image",
	"PreCreateHookError":        remedyDescribe,
	"PreStartHookError":         remedyDescribe,
	"RegistryUnavailable":       remedyPull,
	"RunContainerError":         "the image must have the program that the container starts",
	"SignatureValidationFailed": "use a signed image",
}

// remedyRoot is the remedy of a container that must not run as root, but would.
const remedyRoot = "the container must not run as root: set securityContext.runAsUser to a user other than root that the image supports, " +
	"or use an image that names such a user by its number"

// podFailures are the other reasons of a problem, as containerFailures.
var podFailures = map[string]string{
	corev1.PodReasonUnschedulable:   "reduce the requests, add nodes, or correct the node selector",
	corev1.PodReasonSchedulingGated: "remove the gates, or wait for the controller that set them",
	containerCreating:               remedyDescribe,
	failedMount:                     remedyDescribe,
	failedAttach:                    remedyDescribe,
	failedMap:                       remedyDescribe,
	failedSandbox:                   "if the memory limit is too low for the container to start, raise it; kubectl describe pod has the details",
	noNetwork:                       "the network plugin of the node must run",
	failedDevices:                   remedyDescribe,
	oomKilled:                       "raise the memory limit, or let the process use less",
	notReady:                        "correct the process, its port or the probe; kubectl describe pod shows how the probe fails",
	nodeNotReady:                    remedyNode,
	podFailed:                       remedyDescribe,
	"Evicted":                       "reduce what the pod uses, or raise the limit that the message names",
	"DeadlineExceeded":              "raise activeDeadlineSeconds, or let the process end earlier",
}

// PodProblem says why a pod does not start, is not ready, or has failed.
type PodProblem struct {
	// Container is the name of the container; empty if no container was created yet.
	Container string
	// Reason comes from the kubelet, the scheduler or an event, such as ImagePullBackOff or
	// Unschedulable, or is NotReady. It does not alternate while a container restarts repeatedly.
	Reason string
	// Detail is a text of Kubernetes; it may be empty. Texts of the process in the container, which
	// may have secrets, are left out, except for answers to probes in events.
	Detail string
	// Remedy is what to do.
	Remedy string
	// Objects are the missing or awaited objects of the pod, the most likely cause first.
	Objects []PodObject
}

// PodObject is an object that keeps a pod from being ready: a Node, or a Secret, ConfigMap or
// PersistentVolumeClaim of the namespace of the pod.
type PodObject struct {
	Kind, Name string
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

// InEvents reports whether only events of the pod have the details.
func (p PodProblem) InEvents() bool { return p.Reason == containerCreating }

// failure is the text of [FailingPod] in a message about the owner of a pod.
var failure = regexp.MustCompile(`\bpod ([a-z0-9][a-z0-9.-]*): ((?:container "[^"]*": )?([A-Za-z]+).*)`)

// FailureIn returns the name of the pod that a message blames with the text of [FailingPod], and
// why the pod is not ready. Both are empty for a message without such a text.
func FailureIn(message string) (pod, problem string) {
	match := failure.FindStringSubmatch(message)
	if match == nil {
		return "", ""
	}
	reason := match[3]
	_, ofContainer := containerFailures[reason]
	_, ofPod := podFailures[reason]
	if !ofContainer && !ofPod {
		return "", ""
	}
	return match[1], match[2]
}

// WorkloadOf returns kind and name of the workload of a pod: of the StatefulSet, DaemonSet or Job
// that controls it, or of the Deployment of its ReplicaSet. The name of such a ReplicaSet is the
// name of the Deployment and a hash. Both are empty for a pod without a controller.
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

func textOf(text string, limit int) string { return message.OneLine(message.Truncate(text, limit)) }
