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

// explain explains a pod by its status alone.
func explain(pod *corev1.Pod, at time.Time) (problem health.PodProblem, fails bool, again time.Duration) {
	return health.Explain(health.PodFacts{Pod: pod, Now: at})
}

func TestStatusOfPod(t *testing.T) {
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
		{"pull that failed", corev1.ContainerStatus{State: waiting("ErrImagePull", "")}, corev1.PodCondition{}, pull},
		{"pull that is retried", corev1.ContainerStatus{State: waiting("ImagePullBackOff", "")}, corev1.PodCondition{}, pull},
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
			"Unschedulable: 0/3 nodes are available; reduce the requests, add nodes, or correct the node selector",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.container.Name, tt.container.Image = "web", "nginx:nope"
			pod := &corev1.Pod{Status: corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar", Ready: true}, tt.container}, Conditions: []corev1.PodCondition{tt.condition},
			}}
			reduced := health.ReducePod(pod, metav1.ObjectMeta{})

			whole, fails, _ := explain(pod, began)
			cached, _, _ := explain(reduced, began)

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
	pulls := corev1.ContainerStatus{Name: "second", Image: "a:1", State: waiting("ErrImagePull", "")}
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
				problem, fails, again := explain(pod, began.Add(test.after))

				expect.Equal(t, "whether the pod fails", test.want != "", fails)
				if fails {
					expect.Equal(t, "problem", test.want, problem.String())
				}
				expect.Equal(t, "time of the next look", test.again, again)
			}
		})
	}
}

// at returns the time so many seconds after began.
func at(seconds int) metav1.Time {
	return metav1.NewTime(began.Add(time.Duration(seconds) * time.Second))
}

// about returns a warning about a pod that was seen last so many seconds after began.
func about(seconds int, reason, text string) corev1.Event {
	return corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: text, LastTimestamp: at(seconds)}
}

// TestExplain: the newest fact decides, and events only for facts that the status does not have.
func TestExplain(t *testing.T) {
	const (
		mount   = `MountVolume.SetUp failed for volume "tls" : secret "shop-crt" not found`
		timeout = "Unable to attach or mount volumes: unmounted volumes=[tls]: timed out waiting for the condition"
		sandbox = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox container task " +
			`"2f1e6c5d4b3a29181706f5e4d3c2b1a02f1e6c5d4b3a29181706f5e4d3c2b1a0": container init was OOM-killed (memory limit too low?): unknown`
	)
	start := func(status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: status, LastTransitionTime: at(0)}
	}
	answer := func(conditionType corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: conditionType, Status: status, Reason: reason, LastTransitionTime: at(0)}
	}
	scheduled := func(reason, text string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: text}
	}
	creating := corev1.ContainerStatus{Name: "web", State: waiting("ContainerCreating", "")}
	runs := corev1.ContainerStatus{Name: "web", State: running()}
	ready := corev1.ContainerStatus{Name: "web", State: running(), Ready: true}
	killed := corev1.ContainerStatus{Name: "web", State: waiting("CrashLoopBackOff", ""), LastTerminationState: ended(137, "Error")}
	killed.LastTerminationState.Terminated.StartedAt, killed.LastTerminationState.Terminated.FinishedAt = at(10), at(40)
	pulls := corev1.ContainerStatus{Name: "web", Image: "a:1", State: waiting("ImagePullBackOff", "Back-off pulling image")}
	away := []corev1.PodCondition{answer(corev1.ContainersReady, corev1.ConditionTrue, ""), answer(corev1.PodReady, corev1.ConditionFalse, "")}
	node := func(ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	claim := corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}
	object := func(kind, name string) []health.PodObject { return []health.PodObject{{Kind: kind, Name: name}} }
	ofContainer := func(e corev1.Event, name string) corev1.Event {
		e.InvolvedObject.FieldPath = "spec.containers{" + name + "}"
		return e
	}
	tests := map[string]struct {
		containers []corev1.ContainerStatus
		conditions []corev1.PodCondition
		phase      corev1.PodPhase
		reason     string
		deleted    bool
		node       *corev1.Node
		events     []corev1.Event
		// after is the time after began, in seconds.
		after   int
		problem string
		objects []health.PodObject
		waits   bool
		again   time.Duration
	}{
		"mount that fails": {
			containers: []corev1.ContainerStatus{creating}, conditions: []corev1.PodCondition{start("False")}, after: 5,
			events:  []corev1.Event{about(4, "FailedMount", mount)},
			problem: "FailedMount: " + mount + "; create what is missing, or correct its name", objects: object("Secret", "shop-crt"),
		},
		"mount that the kubelet gives up for now": {
			containers: []corev1.ContainerStatus{creating}, conditions: []corev1.PodCondition{start("False")}, after: 200,
			events:  []corev1.Event{about(120, "FailedMount", mount), about(180, "FailedMount", timeout)},
			problem: "FailedMount: " + mount + "; create what is missing, or correct its name", objects: object("Secret", "shop-crt"),
		},
		"sandbox after a mount that succeeded": {
			containers: []corev1.ContainerStatus{creating}, conditions: []corev1.PodCondition{start("False")}, after: 90,
			events: []corev1.Event{about(60, "FailedCreatePodSandBox", sandbox), about(1, "FailedMount", mount)},
			problem: `FailedCreatePodSandBox: Failed to create pod sandbox: failed to start sandbox container task "...": container init was OOM-killed ` +
				`(memory limit too low?): unknown; if the memory limit is too low for the container to start, raise it; kubectl describe pod has the details`,
		},
		"event from before": {
			containers: []corev1.ContainerStatus{creating}, conditions: []corev1.PodCondition{start("False")}, after: 20,
			events: []corev1.Event{about(-60, "FailedMount", mount)}, waits: true, again: 40 * time.Second,
			problem: "ContainerCreating: waits for its volumes or its network",
		},
		"without events": {
			containers: []corev1.ContainerStatus{creating}, conditions: []corev1.PodCondition{start("False")}, after: 60,
			problem: "ContainerCreating: waits for its volumes or its network for more than a minute; kubectl describe pod has the details",
		},
		"pull after a mount that succeeded": {
			containers: []corev1.ContainerStatus{creating}, conditions: []corev1.PodCondition{start("True")}, after: 3600,
			events: []corev1.Event{about(2, "FailedMount", mount)}, waits: true,
		},
		"pull": {
			containers: []corev1.ContainerStatus{pulls}, conditions: []corev1.PodCondition{start("True")}, after: 30,
			events:  []corev1.Event{about(10, "Failed", "Failed to pull image: 401 Unauthorized"), about(20, "Failed", "Error: ImagePullBackOff")},
			problem: `container "web": ImagePullBackOff: the image "a:1" cannot be pulled: Failed to pull image: 401 Unauthorized; check that the image exists, and that the nodes may pull it`,
		},
		"pull beside one of another container": {
			containers: []corev1.ContainerStatus{pulls}, conditions: []corev1.PodCondition{start("True")}, after: 30,
			events:  []corev1.Event{ofContainer(about(10, "Failed", "401 Unauthorized"), "web"), ofContainer(about(20, "Failed", "404 Not Found"), "proxy")},
			problem: `container "web": ImagePullBackOff: the image "a:1" cannot be pulled: 401 Unauthorized; check that the image exists, and that the nodes may pull it`,
		},
		"node that is away": {
			containers: []corev1.ContainerStatus{ready}, conditions: away, after: 60,
			events:  []corev1.Event{about(1, "Unhealthy", "Readiness probe failed: connection refused")},
			problem: `NodeNotReady: the node "one" does not answer; bring the node back, or delete it`, objects: object("Node", "one"),
		},
		"node that is away, by its own condition": {
			containers: []corev1.ContainerStatus{runs}, conditions: []corev1.PodCondition{answer(corev1.PodReady, "False", "ContainersNotReady")}, after: 60,
			node: node("Unknown"), events: []corev1.Event{about(1, "Unhealthy", "Readiness probe failed: connection refused")},
			problem: `NodeNotReady: the node "one" does not answer; bring the node back, or delete it`, objects: object("Node", "one"),
		},
		"node that is away, by an event": {
			containers: []corev1.ContainerStatus{runs}, after: 60,
			events:  []corev1.Event{about(50, "NodeNotReady", "Node is not ready"), about(1, "Unhealthy", "Readiness probe failed: connection refused")},
			problem: `NodeNotReady: the node "one" does not answer; bring the node back, or delete it`, objects: object("Node", "one"),
		},
		"node that is back": {
			containers: []corev1.ContainerStatus{runs}, after: 90, node: node("True"),
			events:  []corev1.Event{about(50, "NodeNotReady", "Node is not ready"), about(70, "Unhealthy", "Readiness probe failed: 500")},
			problem: `container "web": NotReady: it runs, but its readiness probe has not succeeded for more than a minute: Readiness probe failed: 500; correct the process, its port or the probe`,
		},
		"readiness that is lost": {
			containers: []corev1.ContainerStatus{runs}, conditions: []corev1.PodCondition{answer(corev1.ContainersReady, "False", "ContainersNotReady")}, after: 20,
			events: []corev1.Event{about(10, "Unhealthy", "Readiness probe failed: 500")}, waits: true, again: 40 * time.Second,
			problem: `container "web": NotReady: it runs, but its readiness probe has not succeeded: Readiness probe failed: 500`,
		},
		"liveness": {
			containers: []corev1.ContainerStatus{killed}, after: 60,
			events:  []corev1.Event{about(30, "Unhealthy", "Liveness probe failed: 500"), about(50, "BackOff", "Back-off restarting failed container")},
			problem: `container "web": CrashLoopBackOff: the process ends with exit code 137: Liveness probe failed: 500; kubectl logs --previous shows why the process ends`,
		},
		"pod that should be gone": {
			deleted: true, after: 60, problem: `NodeNotReady: the node "one" does not answer: the pod should be gone by now; bring the node back, or delete it`,
			objects: object("Node", "one"),
		},
		"pod that is being deleted": {deleted: true, after: 10, waits: true, again: 50 * time.Second},
		"eviction": {
			phase: corev1.PodFailed, reason: "Evicted", problem: "Evicted: low on memory; reduce what the pod uses, or raise the limit that the message names",
		},
		"end with an error": {
			phase: corev1.PodFailed, containers: []corev1.ContainerStatus{{Name: "web", State: ended(3, "Error")}},
			problem: `container "web": CrashLoopBackOff: the process ends with exit code 3; kubectl logs shows why the process ends`,
		},
		"missing claim": {
			conditions: []corev1.PodCondition{scheduled("Unschedulable", `persistentvolumeclaim "data" not found`)},
			problem:    `Unschedulable: persistentvolumeclaim "data" not found; create what is missing, or correct its name`, objects: object("PersistentVolumeClaim", "data"),
		},
		"unbound claim": {
			conditions: []corev1.PodCondition{scheduled("Unschedulable", "pod has unbound immediate PersistentVolumeClaims")},
			problem:    "Unschedulable: pod has unbound immediate PersistentVolumeClaims; kubectl describe persistentvolumeclaim shows why the volume is missing",
			objects:    object("PersistentVolumeClaim", "data"),
		},
		"scheduling gate": {
			conditions: []corev1.PodCondition{scheduled("SchedulingGated", "gated")}, waits: true,
			problem: "SchedulingGated: gated; remove the gates, or wait for the controller that set them",
		},
		"scheduler that has not looked": {
			conditions: []corev1.PodCondition{scheduled("", "")}, waits: true, problem: "Pending: the scheduler has not looked at the pod yet",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{NodeName: "one", Volumes: []corev1.Volume{claim}, Containers: []corev1.Container{{Name: "web"}}},
				Status: corev1.PodStatus{
					Phase: test.phase, Reason: test.reason, Message: "low on memory", ContainerStatuses: test.containers, Conditions: test.conditions,
				},
			}
			if test.deleted {
				pod.DeletionTimestamp = new(at(0))
			}

			problem, fails, again := health.Explain(health.PodFacts{Pod: pod, Node: test.node, Events: test.events, Now: at(test.after).Time})

			text := problem.String()
			expect.Equal(t, "problem", test.problem, text)
			expect.Equal(t, "whether the pod fails", !test.waits, fails)
			expect.Equal(t, "objects", test.objects, problem.Objects)
			expect.Equal(t, "time of the next look", test.again, again)

			// The cached part of a pod gives the same explanation as the whole pod, except for claims.
			reduced := health.ReducePod(pod, *pod.ObjectMeta.DeepCopy())
			wholeProblem, wholeFails, wholeAgain := health.Explain(health.PodFacts{Pod: withoutMessages(pod), Now: at(test.after).Time})
			for _, pod := range []*corev1.Pod{reduced, health.ReducePod(reduced, reduced.ObjectMeta)} {
				problem, fails, again := health.Explain(health.PodFacts{Pod: pod, Now: at(test.after).Time})
				expect.Equal(t, "whether the cached pod fails", wholeFails, fails)
				expect.Equal(t, "time of the next look at the cached pod", wholeAgain, again)
				if fails {
					expect.Equal(t, "problem of the cached pod", wholeProblem.String(), problem.String())
				}
			}
		})
	}
}

// withoutMessages returns a pod whose containers wait without a message, which alternates.
func withoutMessages(pod *corev1.Pod) *corev1.Pod {
	copied := pod.DeepCopy()
	for _, container := range copied.Status.ContainerStatuses {
		if container.State.Waiting != nil {
			container.State.Waiting.Message = ""
		}
	}
	return copied
}

// TestFirstFailing: a living pod that fails comes before a pod that has failed, and an old failure
// does not count.
func TestFirstFailing(t *testing.T) {
	pod := func(name string, status corev1.PodStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}}, Status: status,
		}
	}
	failed := func(seconds int) corev1.PodStatus {
		return corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: "Evicted", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, LastTransitionTime: at(seconds)}},
		}
	}
	crashes := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: ended(1, "Error")}}}
	begins := corev1.PodStatus{Phase: corev1.PodPending}
	ofJob := pod("web-1", failed(0))
	ofJob.OwnerReferences[0].Kind = "Job"
	tests := map[string]struct {
		pods  []*corev1.Pod
		want  string
		again time.Duration
	}{
		"none":                          {[]*corev1.Pod{pod("web-1", begins)}, "", 0},
		"first by name":                 {[]*corev1.Pod{pod("web-3", crashes), pod("web-2", crashes), pod("web-1", begins)}, "web-2", 0},
		"living before failed":          {[]*corev1.Pod{pod("web-1", failed(0)), pod("web-2", crashes)}, "web-2", 0},
		"last of the failed":            {[]*corev1.Pod{pod("web-1", failed(0)), pod("web-2", failed(30)), pod("web-3", begins)}, "web-2", 9*time.Minute + 30*time.Second},
		"failure of long ago":           {[]*corev1.Pod{pod("web-1", failed(-600)), pod("web-2", begins)}, "", 0},
		"failure of long ago, in a Job": {[]*corev1.Pod{func() *corev1.Pod { p := ofJob.DeepCopy(); p.Status = failed(-600); return p }()}, "web-1", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for what, pods := range map[string][]*corev1.Pod{"whole": test.pods, "reduced": reduce(test.pods)} {
				failing, found, again := health.FirstFailing(pods, at(60).Time)

				expect.Equal(t, what+": whether a pod fails", test.want != "", found)
				expect.Equal(t, what+": time of the next look", test.again, again)
				if found {
					expect.Equal(t, what+": pod", test.want, failing.Pod.Name)
				}
			}
		})
	}
}

func reduce(pods []*corev1.Pod) []*corev1.Pod {
	var reduced []*corev1.Pod
	for _, pod := range pods {
		reduced = append(reduced, health.ReducePod(pod, *pod.ObjectMeta.DeepCopy()))
	}
	return reduced
}

func TestReducedPodsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 10000)
	failed := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: long, Message: long}}
	crash := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: ended(1, long)}}}}
	var healthy, many corev1.Pod
	for range 100 {
		many.Status.ContainerStatuses = append(many.Status.ContainerStatuses, corev1.ContainerStatus{Name: "web", Image: long, State: running()})
		healthy.Status.ContainerStatuses = append(healthy.Status.ContainerStatuses, corev1.ContainerStatus{Name: "web", Image: long, Ready: true, State: running()})
	}
	many.Spec.Containers = []corev1.Container{{Name: "web", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: long}}}}}
	expect.Equal(t, "status of a healthy pod", true, equality.Semantic.DeepEqual(health.ReducePod(&healthy, metav1.ObjectMeta{}), &corev1.Pod{}))
	for name, pod := range map[string]*corev1.Pod{"failed": failed, "reason of the end": crash, "containers": &many} {
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

// TestFailureIn: the message of an owner blames the pod that FailingPod.String names.
func TestFailureIn(t *testing.T) {
	tests := []struct{ message, pod, problem string }{
		{`Deployment "web": 0/1: pod web-1: container "a": OOMKilled: ended with exit code 137`, "web-1", `container "a": OOMKilled: ended with exit code 137`},
		{"Ready: 0/1: pod db-0: Unschedulable: no nodes", "db-0", "Unschedulable: no nodes"},
		{"Ready: 0/1: pod db-0: FailedMount: no", "db-0", "FailedMount: no"},
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
