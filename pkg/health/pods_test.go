// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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
			`container "web": CreateContainerConfigError: container has runAsNonRoot and image will run as root; the container must not run as root: ` +
				`set securityContext.runAsUser to a user other than root that the image supports, or use an image that names such a user by its number`,
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

			whole, fails, _ := health.OfPodAt(pod, began)
			cached, _, _ := health.OfPodAt(reduced, began)

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

// began is a time at which a container starts.
var began = time.Unix(1800000000, 0)

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}
}

// TestPodThatRuns: the answer depends on the time since the start of a container that is not ready.
func TestPodThatRuns(t *testing.T) {
	const (
		crash   = `container "web": CrashLoopBackOff: the process ends with exit code 255; kubectl logs --previous shows why the process ends`
		ends    = `container "web": CrashLoopBackOff: the process ends with exit code 0; kubectl logs --previous shows why the process ends`
		remedy  = " has not succeeded for more than a minute; correct the process, its port or the probe; kubectl describe pod shows how the probe fails"
		unready = `container "web": NotReady: it runs, but its readiness probe (port 8081, path /ready)` + remedy
	)
	web := corev1.ContainerStatus{Name: "web", State: running()}
	restarted, ending, starting, ready := *web.DeepCopy(), *web.DeepCopy(), *web.DeepCopy(), *web.DeepCopy()
	restarted.RestartCount, restarted.LastTerminationState = 1, ended(255, "Unknown")
	ending.RestartCount, ending.LastTerminationState = 5, ended(0, "Completed")
	starting.Started, ready.Ready = new(false), true
	pulls := corev1.ContainerStatus{Name: "second", Image: "a:1", State: waiting("ErrImagePull", "not found")}
	tests := map[string]struct {
		init, containers []corev1.ContainerStatus
		// unreadyAfter is the time from the start of the container until it became unready.
		unreadyAfter, after time.Duration
		want                string
		again               time.Duration
	}{
		"begins":                {containers: []corev1.ContainerStatus{web}, after: 20 * time.Second, again: 40 * time.Second},
		"never ready":           {containers: []corev1.ContainerStatus{web}, after: time.Minute, want: unready},
		"no longer ready":       {containers: []corev1.ContainerStatus{web}, unreadyAfter: time.Hour, after: time.Hour + 20*time.Second, again: 40 * time.Second},
		"startup probe":         {containers: []corev1.ContainerStatus{starting}, after: time.Minute, want: `container "web": NotReady: it runs, but its startup probe (port 8080)` + remedy},
		"ready":                 {containers: []corev1.ContainerStatus{ready}, after: time.Hour},
		"init container":        {init: []corev1.ContainerStatus{web}, after: time.Hour},
		"init container again":  {init: []corev1.ContainerStatus{restarted}, after: time.Hour},
		"crashed a moment ago":  {containers: []corev1.ContainerStatus{restarted}, after: 9 * time.Minute, want: crash, again: time.Minute},
		"crashed long ago":      {containers: []corev1.ContainerStatus{restarted}, after: 30 * 24 * time.Hour, want: unready},
		"ends without an error": {containers: []corev1.ContainerStatus{ending}, after: time.Minute, want: ends, again: 9 * time.Minute},
		"blocked by another": {
			containers: []corev1.ContainerStatus{restarted, pulls}, after: time.Hour,
			want: `container "second": ImagePullBackOff: the image "a:1" cannot be pulled; check that the image exists, and that the nodes may pull it`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:           "web",
					Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
					StartupProbe:   &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8081), Path: "/ready?token=hunter2"}}},
				}}},
				Status: corev1.PodStatus{
					InitContainerStatuses: test.init, ContainerStatuses: test.containers,
					Conditions: []corev1.PodCondition{{
						Type: corev1.ContainersReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(began.Add(test.unreadyAfter)),
						Message: "containers with unready status: [web]",
					}},
				},
			}
			reduced := health.ReducePod(pod, metav1.ObjectMeta{})
			for _, pod := range []*corev1.Pod{pod, reduced, health.ReducePod(reduced, metav1.ObjectMeta{})} {
				problem, fails, again := health.OfPodAt(pod, began.Add(test.after))

				expect.Equal(t, "whether the pod fails", test.want != "", fails)
				if fails {
					expect.Equal(t, "problem", test.want, problem.String())
				}
				expect.Equal(t, "time of the next look", test.again, again)
			}
		})
	}
}

// TestPodThatWaitsForMount: the kubelet gives no reason in the status of the pod.
func TestPodThatWaitsForMount(t *testing.T) {
	since := time.Unix(1800000000, 0)
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shop-crt"}}},
			{Name: "scripts", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "db-scripts"}}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: waiting("ContainerCreating", "")}},
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since)},
			},
		},
	}
	mounted := pod.DeepCopy()
	mounted.Status.Conditions[0].Status = corev1.ConditionTrue
	const want = "ContainerCreating: waits for its volumes or its network for more than a minute: it mounts Secret shop-crt, ConfigMap db-scripts; " +
		"create what is missing, or correct its name; kubectl describe pod has the details"
	tests := map[string]struct {
		pod   *corev1.Pod
		after time.Duration
		want  string
		again time.Duration
	}{
		"for a short time":    {pod, 20 * time.Second, "", 40 * time.Second},
		"for a long time":     {pod, time.Minute, want, 0},
		"while it is pulled":  {mounted, time.Hour, "", 0},
		"until it is deleted": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: since}}, Status: pod.Status}, time.Hour, "", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reduced := health.ReducePod(test.pod, *test.pod.ObjectMeta.DeepCopy())
			for _, pod := range []*corev1.Pod{test.pod, reduced, health.ReducePod(reduced, reduced.ObjectMeta)} {
				problem, fails, again := health.OfPodAt(pod, since.Add(test.after))

				expect.Equal(t, "whether the pod fails", test.want != "", fails)
				if fails {
					expect.Equal(t, "problem", test.want, problem.String())
				}
				expect.Equal(t, "time of the next look", test.again, again)
			}
		})
	}
}

func TestReducedPodsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 10000)
	mounts := &corev1.Pod{
		Spec:   corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: long}}}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}},
	}
	crash := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: ended(1, long)}}}}
	var healthy, many corev1.Pod
	for range 100 {
		many.Status.ContainerStatuses = append(many.Status.ContainerStatuses, corev1.ContainerStatus{Name: "web", Image: long, State: running()})
		healthy.Status.ContainerStatuses = append(healthy.Status.ContainerStatuses, corev1.ContainerStatus{Name: "web", Image: long, Ready: true, State: running()})
	}
	many.Spec.Containers = []corev1.Container{{Name: "web", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: long}}}}}
	expect.Equal(t, "status of a healthy pod", true, equality.Semantic.DeepEqual(health.ReducePod(&healthy, metav1.ObjectMeta{}), &corev1.Pod{}))
	for name, pod := range map[string]*corev1.Pod{"mounts": mounts, "reason of the end": crash, "containers": &many} {
		if reduced := health.ReducePod(pod, metav1.ObjectMeta{}); reduced.Size() > 700 {
			t.Errorf("%s: the reduced pod has %d bytes", name, reduced.Size())
		}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "web", Image: long, ImageID: long, State: waiting("CreateContainerError", long)}, {Name: "second", State: waiting("CreateContainerError", long)},
	}}}

	reduced := health.ReducePod(pod, metav1.ObjectMeta{})

	if reduced.Size() > 700 {
		t.Errorf("the reduced pod has %d bytes", reduced.Size())
	}
}

// TestFailureIn: the message of an owner blames the pod that PodProblem.Of names.
func TestFailureIn(t *testing.T) {
	tests := []struct{ message, pod, problem string }{
		{`Deployment "web": 0/1: pod web-1: container "a": OOMKilled: ended with exit code 137`, "web-1", `container "a": OOMKilled: ended with exit code 137`},
		{"Ready: 0/1: pod db-0: Unschedulable: no nodes", "db-0", "Unschedulable: no nodes"},
		{"Ready: 0/1: pod db-0: ContainerCreating: waits", "db-0", "ContainerCreating: waits"},
		{`Ready: 0/1: pod db-0: container "web": NotReady: it runs`, "db-0", `container "web": NotReady: it runs`},
		{"pod web-1: Pending", "", ""},
		{`Deployment "web": Available: 0/1`, "", ""},
	}
	for _, tt := range tests {
		if pod, problem := health.FailureIn(tt.message); pod != tt.pod || problem != tt.problem {
			t.Errorf("%s: got %q, %q", tt.message, pod, problem)
		}
	}
}
