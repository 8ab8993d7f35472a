// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/test/expect"
)

func waiting(reason, text string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: text}}
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: "password=hunter2"}}
}

func TestOfPod(t *testing.T) {
	const crash = `container "web": CrashLoopBackOff: the process ends with exit code 1; kubectl logs --previous shows why the process ends`
	const pull = `container "web": ImagePullBackOff: the image "nginx:nope" cannot be pulled; check that the image exists, and that the nodes may pull it`
	tests := []struct {
		name      string
		container corev1.ContainerStatus
		condition corev1.PodCondition
		want      string
	}{
		{"healthy", corev1.ContainerStatus{Ready: true, LastTerminationState: ended(1, "Error")}, corev1.PodCondition{}, ""},
		{"begins", corev1.ContainerStatus{State: waiting("ContainerCreating", "")}, corev1.PodCondition{}, ""},
		{"pull that failed", corev1.ContainerStatus{State: waiting("ErrImagePull", "not found")}, corev1.PodCondition{}, pull},
		{"pull that is retried", corev1.ContainerStatus{State: waiting("ImagePullBackOff", "Back-off")}, corev1.PodCondition{}, pull},
		{"crash", corev1.ContainerStatus{State: ended(1, "Error")}, corev1.PodCondition{}, crash},
		{"back-off after a crash", corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "back-off 10s"), LastTerminationState: ended(1, "Error")}, corev1.PodCondition{}, crash},
		{"restart after a crash", corev1.ContainerStatus{LastTerminationState: ended(1, "Error")}, corev1.PodCondition{}, crash},
		{
			"out of memory",
			corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "back-off"), LastTerminationState: ended(137, "OOMKilled")},
			corev1.PodCondition{},
			`container "web": OOMKilled: the process ends with exit code 137; raise the memory limit, or let the process use less`,
		},
		{
			"image that runs as root",
			corev1.ContainerStatus{State: waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")},
			corev1.PodCondition{},
			`container "web": CreateContainerConfigError: container has runAsNonRoot and image will run as root; create the Secret, ConfigMap or key ` +
				`that the message names; if the image runs as root, use one with a numeric user other than root`,
		},
		{
			"no node",
			corev1.ContainerStatus{},
			corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"},
			"Unschedulable: 0/3 nodes are available; reduce the requests, add nodes, or correct the volume or the node selector",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.container.Name, tt.container.Image = "web", "nginx:nope"
			pod := &corev1.Pod{Status: corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar", Ready: true}, tt.container}, Conditions: []corev1.PodCondition{tt.condition},
			}}
			reduced := health.ReducePod(pod, metav1.ObjectMeta{})

			whole, fails := health.OfPod(pod)
			cached, _ := health.OfPod(reduced)

			expect.Equal(t, "whether the pod fails", tt.want != "", fails)
			if fails {
				expect.Equal(t, "problem", tt.want, whole.String())
			}
			expect.Equal(t, "problem of the cached pod", whole, cached)
			if diff := cmp.Diff(reduced, health.ReducePod(reduced, metav1.ObjectMeta{})); diff != "" {
				t.Errorf("a second reduction changes the pod:\n%s", diff)
			}
		})
	}
}

func TestReducedPodsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 10000)
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "web", Image: long, ImageID: long, State: waiting("CreateContainerError", long)}, {Name: "second", State: waiting("CreateContainerError", long)},
	}}}

	reduced := health.ReducePod(pod, metav1.ObjectMeta{})

	if reduced.Size() > 500 {
		t.Errorf("the reduced pod has %d bytes", reduced.Size())
	}
}
