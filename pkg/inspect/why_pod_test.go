// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

// appWithPod is a DemoApp web that waits for its Deployment, which has one pod of a ReplicaSet. The
// pod's status is to be added.
const appWithPod = `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: web, generation: 1}
status:
  observedGeneration: 1
  conditions: [{type: Ready, status: "False", reason: Progressing, message: 'Deployment "web": Available: 0/1', observedGeneration: 1}]
  inventory: [{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: dep}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, uid: dep, generation: 1}
spec: {replicas: 1, selector: {matchLabels: {app: web}}}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1%s}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, uid: rs, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: dep, controller: true}]}
spec: {replicas: 1, selector: {matchLabels: {app: web, hash: a}}}
status: {replicas: 1, fullyLabeledReplicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1-a, uid: pod, labels: {app: web, hash: a}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: rs, controller: true}]}
spec: {nodeName: one, volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: logs, persistentVolumeClaim: {claimName: logs}}]}
status: %s
`

// waits returns the status of a pod whose container waits.
func waits(reason, message string) string {
	return fmt.Sprintf(`{phase: Pending, containerStatuses: [{name: web, image: "a:1", state: {waiting: {reason: %s, message: %q}}}]}`, reason, message)
}

// crashes returns the status of a pod whose container crashes repeatedly.
func crashes(code int, reason string) string {
	return fmt.Sprintf(`{phase: Running, containerStatuses: [{name: web, image: "a:1", state: {waiting: {reason: CrashLoopBackOff}}, `+
		`lastState: {terminated: {exitCode: %d, reason: %s}}}]}`, code, reason)
}

// unschedulable returns the status of a pod that no node takes.
func unschedulable(reason, message string) string {
	return fmt.Sprintf(`{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: %s, message: %q}]}`, reason, message)
}

// evicted returns another pod of the ReplicaSet, which was evicted at a time.
func evicted(at string) string {
	return `---
apiVersion: v1
kind: Pod
metadata: {name: web-1-0, uid: evicted, labels: {app: web, hash: a}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: rs, controller: true}]}
status: {phase: Failed, reason: Evicted, message: low on memory, conditions: [{type: Ready, status: "False", lastTransitionTime: "` + at + `"}]}
`
}

// TestWhyOfPods follows an app through its Deployment to the reason that keeps a pod from running.
func TestWhyOfPods(t *testing.T) {
	const (
		describe = "kubectl describe pod web-1-a -n shop"
		previous = "kubectl logs web-1-a -n shop -c web --previous"
		starting = "{phase: Pending}"
		unready  = `{phase: Running, containerStatuses: [{name: web, state: {running: {startedAt: "1970-01-01T00:00:00Z"}}}]}`
	)
	claim := "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, uid: claim}\nstatus: {phase: Pending}\n"
	tests := []struct {
		name, status string
		// deployment is added to the status of the Deployment, objects are further objects, and event
		// is an event of the object with a UID, as UID REASON: MESSAGE.
		deployment, objects, event string
		// cause is the last step, without the pod's own steps for a cause below it.
		cause, text, command string
		waits                bool
	}{
		{name: "image", status: waits("ImagePullBackOff", "not found"), cause: "Pod/web-1-a", text: `container "web": ImagePullBackOff: the image "a:1" cannot be pulled: not found; check that the image exists`, command: describe},
		{
			name: "image with an event", status: waits("ErrImagePull", "short"), event: "pod Failed: 401 Unauthorized", cause: "Pod/web-1-a",
			text: `container "web": ImagePullBackOff: the image "a:1" cannot be pulled: 401 Unauthorized; check`, command: describe,
		},
		{name: "name of an image", status: waits("InvalidImageName", "no"), cause: "Pod/web-1-a", text: "InvalidImageName", command: describe},
		{name: "exit code", status: crashes(42, "Error"), cause: "Pod/web-1-a", text: `container "web": CrashLoopBackOff: the process ends with exit code 42; kubectl logs --previous`, command: previous},
		{name: "out of memory", status: crashes(137, "OOMKilled"), cause: "Pod/web-1-a", text: "OOMKilled: the process ends with exit code 137; raise the memory limit", command: previous},
		{
			name: "init container", status: `{phase: Pending, initContainerStatuses: [{name: prepare, state: {terminated: {exitCode: 3}}}]}`,
			cause: "Pod/web-1-a", text: `container "prepare": CrashLoopBackOff: the process ends with exit code 3`, command: "kubectl logs web-1-a -n shop -c prepare",
		},
		{name: "command", status: waits("RunContainerError", "exec: no such file"), cause: "Pod/web-1-a", text: "exec: no such file", command: describe},
		{name: "Secret of a container", status: waits("CreateContainerConfigError", `secret "token" not found`), cause: "Secret/token", text: "does not exist", command: "kubectl create secret generic token -n shop --from-literal=KEY=VALUE"},
		{
			name: "key of a ConfigMap", status: waits("CreateContainerConfigError", "couldn't find key mode in ConfigMap shop/settings"),
			cause: "ConfigMap/settings", text: "does not exist", command: "kubectl create configmap settings -n shop --from-literal=KEY=VALUE",
		},
		{name: "Secret of a volume", status: starting, event: `pod FailedMount: secret "tls" not found`, cause: "Secret/tls", text: "does not exist", command: "kubectl create secret generic tls -n shop --from-literal=KEY=VALUE"},
		{name: "volume", status: starting, event: "pod FailedAttachVolume: it is attached elsewhere", cause: "Pod/web-1-a", text: "attached elsewhere", command: describe},
		{name: "sandbox", status: starting, event: "pod FailedCreatePodSandBox: plugin type cni failed", cause: "Pod/web-1-a", text: "cni failed", command: describe},
		{name: "probe", status: unready, event: "pod Unhealthy: Readiness probe failed: 500", cause: "Pod/web-1-a", text: "probe failed: 500", command: describe},
		{name: "probe without an event", status: unready, cause: "Pod/web-1-a", text: `container "web": NotReady: it runs, but its readiness probe has not`, command: describe},
		{name: "evicted", status: "{phase: Failed, reason: Evicted, message: low on memory}", cause: "Pod/web-1-a", text: "Evicted: low on memory", command: describe},
		{
			name: "node that is away", objects: "---\napiVersion: v1\nkind: Node\nmetadata: {name: one, uid: one}\nstatus: {conditions: [{type: Ready, status: Unknown, message: Kubelet stopped posting node status.}]}\n",
			status: `{phase: Running, conditions: [{type: Ready, status: "False"}, {type: ContainersReady, status: "True"}]}`,
			cause:  "Node/one", text: "Kubelet stopped posting node status.", command: "kubectl describe node one",
		},
		{
			name: "replacement of an evicted pod", objects: evicted("1970-01-01T00:15:00Z"), status: starting,
			cause: "Pod/web-1-0", text: "Evicted: low on memory", command: "kubectl describe pod web-1-0 -n shop",
		},
		{
			name: "pod that crashes after an eviction", objects: evicted("1970-01-01T00:15:00Z"), status: crashes(1, "Error"), cause: "Pod/web-1-a",
			text: "exit code 1", command: previous,
		},
		{name: "pod that starts long after an eviction", objects: evicted("1970-01-01T00:00:00Z"), status: starting, cause: "Pod/web-1-a", command: describe, waits: true},
		{name: "nodes", status: unschedulable("Unschedulable", "0/2 nodes are available: 2 Insufficient cpu"), cause: "Pod/web-1-a", text: "Insufficient cpu", command: describe},
		{name: "taint", status: unschedulable("Unschedulable", "2 node(s) had untolerated taint {gpu: }"), cause: "Pod/web-1-a", text: "untolerated taint", command: describe},
		{name: "scheduling gate", status: unschedulable("SchedulingGated", "gated"), cause: "Pod/web-1-a", text: "SchedulingGated: gated; remove the gates", command: describe, waits: true},
		{
			name: "missing claim", status: unschedulable("Unschedulable", `persistentvolumeclaim "data" not found`), cause: "PersistentVolumeClaim/data",
			text: "does not exist", command: "kubectl get persistentvolumeclaim -n shop",
		},
		{
			name: "unbound claim", status: unschedulable("Unschedulable", "pod has unbound immediate PersistentVolumeClaims"), objects: claim,
			event: "claim FailedBinding: no storage class is set", cause: "PersistentVolumeClaim/data", text: "no storage class", command: "kubectl describe persistentvolumeclaim data -n shop",
		},
		{
			name: "second claim", status: unschedulable("Unschedulable", "pod has unbound immediate PersistentVolumeClaims"),
			objects: strings.Replace(claim, "Pending", "Bound", 1) + strings.Replace(claim, "name: data, uid: claim", "name: logs, uid: logs", 1),
			event:   "logs FailedBinding: no storage class is set", cause: "PersistentVolumeClaim/logs", text: "no storage class", command: "kubectl describe persistentvolumeclaim logs -n shop",
		},
		{
			name: "storage class", status: unschedulable("Unschedulable", "pod has unbound immediate PersistentVolumeClaims"), objects: claim,
			event: `claim ProvisioningFailed: storageclass.storage.k8s.io "fast" not found`, cause: "StorageClass/fast", text: "does not exist", command: "kubectl get storageclass",
		},
		{
			name: "volume that is being made", status: unschedulable("Unschedulable", "pod has unbound immediate PersistentVolumeClaims"), objects: claim,
			event: "claim ExternalProvisioning: waiting", cause: "PersistentVolumeClaim/data", text: "waiting", command: "kubectl describe persistentvolumeclaim data -n shop", waits: true,
		},
		{
			name: "quota", status: starting, cause: "ResourceQuota/few", command: "kubectl describe resourcequota few -n shop", objects: "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\n",
			deployment: `, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'exceeded quota: few, requested: pods=1'}]`,
		},
		{name: "pod that starts", status: waits("ContainerCreating", ""), cause: "Pod/web-1-a", command: describe, waits: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, _ := treeCluster(t, fmt.Sprintf(appWithPod, tt.deployment, tt.status)+tt.objects)
			lease(t, cluster, now)
			if tt.event != "" {
				about, text, _ := strings.Cut(tt.event, " ")
				reason, message, _ := strings.Cut(text, ": ")
				event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, InvolvedObject: corev1.ObjectReference{UID: types.UID(about)}, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(now)}
				_, err := cluster.Kubernetes.CoreV1().Events("shop").Create(t.Context(), event, metav1.CreateOptions{})
				expect.NoError(t, err)
			}
			kind, err := cluster.Kind(t.Context(), "demoapp")
			expect.NoError(t, err)

			got, err := cluster.Why(t.Context(), inspect.Reference{GroupVersionKind: kind.GroupVersionKind, Namespace: "shop", Name: "web"}, now)

			expect.NoError(t, err)
			want := inspect.NeedsPerson
			if tt.waits {
				want = inspect.Waits
			}
			expect.Equal(t, "verdict", want.String(), got.Verdict.String())
			expect.Equal(t, "cause", tt.cause, got.Cause().Object.String())
			expect.Contains(t, "text", got.Cause().Text, tt.text)
			expect.Equal(t, "command", tt.command, got.Commands[0])
		})
	}
}
