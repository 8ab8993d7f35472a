// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// object reads an object as it is written in a manifest.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return o
}

const deploymentHead = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, generation: 2}
spec:
  replicas: 3
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: In, values: [front]}]}
`

const jobHead = `
apiVersion: batch/v1
kind: Job
metadata: {name: web}
`

func TestOf(t *testing.T) {
	const selector = "app=web,tier in (front)"
	tests := map[string]struct {
		manifest string
		want     Health
		// silent kinds have no message.
		silent bool
	}{
		"Deployment, not seen by its controller yet": {
			manifest: deploymentHead + "status: {observedGeneration: 1, replicas: 3, readyReplicas: 3}",
			want:     Health{Status: status.InProgressStatus, Replicas: 3, ReadyReplicas: 3, Selector: selector},
		},
		"Deployment, rolling out": {
			manifest: deploymentHead + "status: {observedGeneration: 2, replicas: 3, updatedReplicas: 3, readyReplicas: 1, availableReplicas: 1}",
			want:     Health{Status: status.InProgressStatus, Replicas: 3, ReadyReplicas: 1, Selector: selector},
		},
		"Deployment, rolled out": {
			manifest: deploymentHead + `
status:
  observedGeneration: 2
  replicas: 3
  updatedReplicas: 3
  readyReplicas: 3
  availableReplicas: 3
  conditions:
    - {type: Available, status: "True"}
    - {type: Progressing, status: "True", reason: NewReplicaSetAvailable}
`,
			want:   Health{Status: status.CurrentStatus, Replicas: 3, ReadyReplicas: 3, Selector: selector, Available: true},
			silent: true,
		},
		"Deployment, does not come along": {
			manifest: deploymentHead + `
status:
  observedGeneration: 2
  replicas: 3
  conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]
`,
			want: Health{Status: status.FailedStatus, Reason: "ProgressDeadlineExceeded", Replicas: 3, Selector: selector},
		},
		"Deployment, going": {
			manifest: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, deletionTimestamp: "2026-01-02T03:04:05Z", finalizers: [a/b]}
`,
			want: Health{Status: status.TerminatingStatus},
		},
		"Service inside the cluster": {
			manifest: "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: ClusterIP, selector: {app: web}}}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Service, load balancer to come": {
			manifest: "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: LoadBalancer}}",
			want:     Health{Status: status.InProgressStatus},
		},
		"Service, load balancer is there": {
			manifest: "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}, status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Job, failed": {
			manifest: `
apiVersion: batch/v1
kind: Job
metadata: {name: web}
status: {startTime: "2026-01-02T03:04:05Z", conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: no more}]}
`,
			want: Health{Status: status.FailedStatus, Reason: "JobFailed"},
		},
		"Job, not seen by its controller yet": {
			manifest: jobHead + "spec: {}",
			want:     Health{Status: status.InProgressStatus},
		},
		"Job, started without a pod": {
			manifest: jobHead + `status: {startTime: "2026-01-02T03:04:05Z", ready: 0, uncountedTerminatedPods: {}}`,
			want:     Health{Status: status.InProgressStatus, PodsMissing: "; kubectl describe job web says whether a quota or admission refuses its pods"},
		},
		"Job, started": {
			manifest: jobHead + `status: {startTime: "2026-01-02T03:04:05Z", active: 1}`,
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Job, its pod ends": {
			manifest: jobHead + `status: {startTime: "2026-01-02T03:04:05Z", terminating: 1}`,
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Job, its pod has ended and is not counted yet": {
			manifest: jobHead + `status: {startTime: "2026-01-02T03:04:05Z", uncountedTerminatedPods: {failed: [a]}}`,
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Job, waits for its next pod": {
			manifest: jobHead + `status: {startTime: "2026-01-02T03:04:05Z", failed: 1}`,
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Job, suspended after its start": {
			manifest: jobHead + `
spec: {suspend: true}
status: {startTime: "2026-01-02T03:04:05Z", conditions: [{type: Suspended, status: "True"}]}
`,
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"Job that should have no pod": {
			manifest: jobHead + `
spec: {parallelism: 0}
status: {startTime: "2026-01-02T03:04:05Z"}
`,
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"Job, complete without a pod": {
			manifest: jobHead + `
spec: {completions: 0}
status: {startTime: "2026-01-02T03:04:05Z", conditions: [{type: Complete, status: "True"}]}
`,
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"Job, going": {
			manifest: `
apiVersion: batch/v1
kind: Job
metadata: {name: web, deletionTimestamp: "2026-01-02T03:04:05Z", finalizers: [a/b]}
status: {startTime: "2026-01-02T03:04:05Z"}
`,
			want: Health{Status: status.TerminatingStatus},
		},
		"Deployment, paused before its pods are replaced": {
			manifest: strings.Replace(deploymentHead, "replicas: 3", "replicas: 3\n  paused: true", 1) + `
status:
  observedGeneration: 2
  replicas: 3
  updatedReplicas: 0
  readyReplicas: 3
  availableReplicas: 3
  conditions: [{type: Available, status: "True"}, {type: Progressing, status: Unknown, reason: DeploymentPaused}]
`,
			want:   Health{Status: status.CurrentStatus, Replicas: 3, ReadyReplicas: 3, Selector: selector, Available: true},
			silent: true,
		},
		"Deployment, paused without pods that are ready": {
			manifest: strings.Replace(deploymentHead, "replicas: 3", "replicas: 3\n  paused: true", 1) + `
status: {observedGeneration: 2, replicas: 3, conditions: [{type: Progressing, status: Unknown, reason: DeploymentPaused}]}
`,
			want: Health{Status: status.InProgressStatus, Replicas: 3, Selector: selector},
		},
		"DaemonSet, whose pods a person replaces": {
			manifest: "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, generation: 2}, spec: {updateStrategy: {type: OnDelete}}, status: " +
				"{observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberAvailable: 2, numberReady: 2}}",
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"DaemonSet, whose pods a person replaces, without one that is ready": {
			manifest: "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, generation: 2}, spec: {updateStrategy: {type: OnDelete}}, status: " +
				"{observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberAvailable: 1, numberReady: 1}}",
			want: Health{Status: status.InProgressStatus},
		},
		"StatefulSet, whose pods a person replaces": {
			manifest: "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, generation: 2}, spec: {replicas: 2, updateStrategy: {type: OnDelete}}, status: " +
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 2, currentRevision: a, updateRevision: b}}",
			want:   Health{Status: status.CurrentStatus, Replicas: 2, ReadyReplicas: 2},
			silent: true,
		},
		"StatefulSet, whose pods a person replaces, without pods that are ready": {
			manifest: "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, generation: 2}, spec: {replicas: 2, updateStrategy: {type: OnDelete}}, status: " +
				"{observedGeneration: 2, replicas: 2, readyReplicas: 0, availableReplicas: 0, currentReplicas: 2, currentRevision: a, updateRevision: a}}",
			want: Health{Status: status.InProgressStatus, Replicas: 2},
		},
		"Job, suspended before its start": {
			manifest: jobHead + "spec: {suspend: true}\nstatus: {conditions: [{type: Suspended, status: \"True\"}]}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Pod, evicted": {
			manifest: "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}, status: {phase: Failed, reason: Evicted, message: disk}}",
			want:     Health{Status: status.FailedStatus},
		},
		"claim, whose volume is gone": {
			manifest: "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {volumeName: pv-1}, status: {phase: Lost}}",
			want:     Health{Status: status.FailedStatus},
		},
		"APIService, whose server does not answer": {
			manifest: "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}, status: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints}]}}",
			want:     Health{Status: status.InProgressStatus},
		},
		"APIService, new": {
			manifest: "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}}",
			want:     Health{Status: status.InProgressStatus},
		},
		"APIService, available": {
			manifest: "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}, status: {conditions: [{type: Available, status: 'True'}]}}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"StatefulSet, ready for less than minReadySeconds": {
			manifest: "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, generation: 2}, spec: {replicas: 2, minReadySeconds: 30}, status: " +
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 1, currentReplicas: 2, updatedReplicas: 2, currentRevision: b, updateRevision: b}}",
			want: Health{Status: status.InProgressStatus, Replicas: 2, ReadyReplicas: 2},
		},
		"StatefulSet, whose pods a person replaces, ready for less than minReadySeconds": {
			manifest: "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, generation: 2}, " +
				"spec: {replicas: 2, minReadySeconds: 30, updateStrategy: {type: OnDelete}}, " +
				"status: {observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 1, currentReplicas: 2, currentRevision: a, updateRevision: b}}",
			want: Health{Status: status.InProgressStatus, Replicas: 2, ReadyReplicas: 2},
		},
		"StatefulSet, ready for minReadySeconds": {
			manifest: "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, generation: 2}, spec: {replicas: 2, minReadySeconds: 30}, status: " +
				"{observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 2, updatedReplicas: 2, currentRevision: b, updateRevision: b}}",
			want:   Health{Status: status.CurrentStatus, Replicas: 2, ReadyReplicas: 2},
			silent: true,
		},
		"StatefulSet, whose partition keeps all pods at the older revision": {
			manifest: "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, generation: 2}, " +
				"spec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}}, " +
				"status: {observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 2, currentRevision: a, updateRevision: b}}",
			want:   Health{Status: status.CurrentStatus, Replicas: 2, ReadyReplicas: 2},
			silent: true,
		},
		"DaemonSet that no node matches": {
			manifest: "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, generation: 2}, spec: {updateStrategy: {type: RollingUpdate}}, status: " +
				"{observedGeneration: 2, desiredNumberScheduled: 0, currentNumberScheduled: 0, numberReady: 0, numberMisscheduled: 0}}",
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"Deployment, scaled up by an autoscaler": {
			manifest: deploymentHead + `
status:
  observedGeneration: 2
  replicas: 3
  updatedReplicas: 3
  readyReplicas: 2
  availableReplicas: 2
  conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]
`,
			want: Health{Status: status.InProgressStatus, Replicas: 3, ReadyReplicas: 2, Selector: selector, Available: true},
		},
		"ReplicationController without a ready pod": {
			manifest: "{apiVersion: v1, kind: ReplicationController, metadata: {name: a, generation: 2}, spec: {replicas: 2}, " +
				"status: {observedGeneration: 2, replicas: 2, fullyLabeledReplicas: 2}}",
			want: Health{Status: status.InProgressStatus, Replicas: 2},
		},
		"ReplicationController whose pods admission refuses": {
			manifest: "{apiVersion: v1, kind: ReplicationController, metadata: {name: a, generation: 2}, spec: {replicas: 2}, " +
				"status: {observedGeneration: 2, replicas: 0, conditions: [{type: ReplicaFailure, status: 'True', message: denied}]}}",
			want: Health{Status: status.InProgressStatus, PodsRefused: "denied"},
		},
		"ReplicationController with its pods": {
			manifest: "{apiVersion: v1, kind: ReplicationController, metadata: {name: a, generation: 2}, spec: {replicas: 2}, " +
				"status: {observedGeneration: 2, replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 2, availableReplicas: 2}}",
			want:   Health{Status: status.CurrentStatus, Replicas: 2, ReadyReplicas: 2},
			silent: true,
		},
		"ReplicationController that should have no pods": {
			manifest: "{apiVersion: v1, kind: ReplicationController, metadata: {name: a, generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 2, replicas: 0}}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Pod that waits for a node": {
			manifest: "{apiVersion: v1, kind: Pod, metadata: {name: a, creationTimestamp: '2026-01-02T03:04:05Z'}, spec: {containers: []}, status: " +
				"{phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available'}]}}",
			want: Health{Status: status.InProgressStatus},
		},
		"Pod with a scheduling gate": {
			manifest: "{apiVersion: v1, kind: Pod, metadata: {name: a, creationTimestamp: '2026-01-02T03:04:05Z'}, spec: {containers: []}, status: " +
				"{phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated}]}}",
			want: Health{Status: status.InProgressStatus},
		},
		"Pod that runs once, and is ready": {
			manifest: "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [], restartPolicy: Never}, " +
				"status: {phase: Running, conditions: [{type: PodScheduled, status: 'True'}, {type: Ready, status: 'True'}]}}",
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"PodDisruptionBudget that allows no disruption": {
			manifest: "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, generation: 1}, spec: {minAvailable: 1}, status: " +
				"{observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, " +
				"conditions: [{type: DisruptionAllowed, status: 'False', reason: InsufficientPods, message: ''}]}}",
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"PodDisruptionBudget of pods without the scale subresource, changed": {
			manifest: "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, generation: 2}, spec: {maxUnavailable: 1}, status: " +
				"{observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, " +
				"conditions: [{type: DisruptionAllowed, status: 'False', reason: SyncFailed, message: things do not implement the scale subresource}]}}",
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"PodDisruptionBudget, not seen by its controller yet": {
			manifest: "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, generation: 2}, spec: {maxUnavailable: 1}, status: " +
				"{observedGeneration: 1, disruptionsAllowed: 1, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, " +
				"conditions: [{type: DisruptionAllowed, status: 'True', reason: SufficientPods, message: ''}]}}",
			want: Health{Status: status.InProgressStatus},
		},
		"HorizontalPodAutoscaler that reads no metrics": {
			manifest: "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: a}}, " +
				"status: {currentMetrics: [], desiredReplicas: 0, conditions: [{type: ScalingActive, status: 'False', reason: FailedGetResourceMetric}]}}",
			want:   Health{Status: status.CurrentStatus},
			silent: true,
		},
		"Service with external IPs, load balancer to come": {
			manifest: "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1, externalIPs: [192.0.2.1]}, status: {loadBalancer: {}}}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Service whose load balancer has no address yet": {
			manifest: "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}, status: {loadBalancer: {}}}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"Ingress without an address": {
			manifest: "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, generation: 1}, spec: {}, status: {loadBalancer: {}}}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"a kind of its own, with the usual conditions": {
			manifest: `
apiVersion: example.com/v1
kind: Thing
metadata: {name: web, generation: 2}
status: {observedGeneration: 2, conditions: [{type: Ready, status: "False", reason: Waiting, message: for the tide}]}
`,
			want: Health{Status: status.InProgressStatus},
		},
		"a kind of its own, without any": {
			manifest: "{apiVersion: example.com/v1, kind: Thing, metadata: {name: web}}",
			want:     Health{Status: status.CurrentStatus},
			silent:   true,
		},
		"a status that kstatus cannot read": {
			manifest: "{apiVersion: example.com/v1, kind: Thing, metadata: {name: web}, status: {conditions: none}}",
			want:     Health{Status: status.UnknownStatus},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			whole := object(t, tc.manifest)
			got := Of(whole)
			if typed, err := scheme.Scheme.New(whole.GroupVersionKind()); err == nil {
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(whole.Object, typed); err != nil {
					t.Fatal(err)
				}
				// As it comes from the API server.
				typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
				if diff := cmp.Diff(got, OfTyped(typed.(metav1.Object))); diff != "" {
					t.Errorf("health (-of the object +of the typed one):\n%s", diff)
				}
			}
			if silent := got.Message == ""; silent != tc.silent {
				t.Errorf("message is %q, want none: %t", got.Message, tc.silent)
			}
			got.Message = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("health (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOfReporting: an object of a kind that reports Ready is not healthy before its controller has
// seen it.
func TestOfReporting(t *testing.T) {
	const head = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: web, generation: 2}"
	tests := map[string]struct {
		manifest string
		want     Health
	}{
		"no status yet": {
			head + "}", Health{Status: status.InProgressStatus, Message: "No controller has reported the condition Ready yet"},
		},
		"an older generation was ready": {
			head + `, status: {observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}}`,
			Health{Status: status.InProgressStatus, Message: "Thing generation is 2, but latest observed generation is 1"},
		},
		"progressing": {
			head + `, status: {observedGeneration: 2, conditions: [
				{type: Ready, status: "False"}, {type: Reconciling, status: "True", reason: Progressing, message: pods start}]}}`,
			Health{Status: status.InProgressStatus, Message: "pods start"},
		},
		"stalled": {
			head + `, status: {observedGeneration: 2, conditions: [
				{type: Ready, status: "False"}, {type: Stalled, status: "True", reason: Refused, message: "spec.storage: may not shrink"}]}}`,
			Health{Status: status.FailedStatus, Message: "spec.storage: may not shrink", Reason: "Refused"},
		},
		"ready": {
			head + `, status: {observedGeneration: 2, replicas: 3, readyReplicas: 3, conditions: [{type: Ready, status: "True"}]}}`,
			Health{Status: status.CurrentStatus, Replicas: 3, ReadyReplicas: 3},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			whole := object(t, tc.manifest)
			gvk := whole.GroupVersionKind()
			whole.SetGroupVersionKind(schema.GroupVersionKind{}) // As it comes from the API server.

			got := OfReporting(whole, gvk)

			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("health (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefusedPods: the message says why the pods of a Deployment cannot be created.
func TestRefusedPods(t *testing.T) {
	refused := object(t, deploymentHead+`
status:
  observedGeneration: 2
  conditions:
    - {type: Progressing, status: "False", reason: ProgressDeadlineExceeded}
    - {type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'pods "web-5d9c-x7k2p" is forbidden: exceeded quota: small, limited: pods=0'}
`)

	got := Of(refused)

	const refusal = "pods is forbidden: exceeded quota: small, limited: pods=0"
	if !strings.HasSuffix(got.Message, ": "+refusal+"; raise the ResourceQuota small, or lower what the pods request") || got.PodsRefused != refusal {
		t.Errorf("message is %q, and the pods are refused with %q", got.Message, got.PodsRefused)
	}
}

// TestPodsOfOldGeneration: refused pods of an older generation do not explain the pods of the
// newest generation.
func TestPodsOfOldGeneration(t *testing.T) {
	changed := object(t, deploymentHead+`
status:
  observedGeneration: 1
  conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'pods "web-5d9c-x7k2p" is forbidden: no'}]
`)

	got := Of(changed)

	if got.PodsRefused != "" {
		t.Errorf("the pods are refused with %q", got.PodsRefused)
	}
}

func TestOfStatusless(t *testing.T) {
	here, going := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
	going.DeletionTimestamp = &metav1.Time{}
	if got := OfStatusless(here); got.Status != status.CurrentStatus || got.Message != "" {
		t.Errorf("an object that is there: %+v", got)
	}
	if got := OfStatusless(going); got.Status != status.TerminatingStatus || got.Message == "" {
		t.Errorf("an object that is going: %+v", got)
	}
}

// TestCounts: an invalid count or selector is ignored.
func TestCounts(t *testing.T) {
	tests := map[string]struct {
		manifest string
		replicas int32
		selector string
	}{
		"none":                   {"{}", 0, ""},
		"a count":                {"{status: {replicas: 3}}", 3, ""},
		"a count as a float":     {"{status: {replicas: 3.0}}", 3, ""},
		"negative":               {"{status: {replicas: -3}}", 0, ""},
		"beyond all measure":     {"{status: {replicas: 9999999999}}", 1<<31 - 1, ""},
		"text":                   {"{status: {replicas: three}}", 0, ""},
		"a status that is text":  {"{status: fine}", 0, ""},
		"selector of a workload": {"{spec: {selector: {matchLabels: {b: two, a: one}}}}", 0, "a=one,b=two"},
		"selector of a Service":  {"{spec: {selector: {a: one}}}", 0, ""},
		"selector that is text":  {"{spec: {selector: a=one}}", 0, ""},
		"selector of no meaning": {"{spec: {selector: {matchLabels: [a]}}}", 0, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			content := map[string]any{}
			if err := yaml.Unmarshal([]byte(tc.manifest), &content); err != nil {
				t.Fatal(err)
			}
			if got := nestedInt32(content, "status", "replicas"); got != tc.replicas {
				t.Errorf("replicas = %d, want %d", got, tc.replicas)
			}
			if got := selectorOf(content); got != tc.selector {
				t.Errorf("selector = %q, want %q", got, tc.selector)
			}
		})
	}
}

// TestStatefulSetThatLacksPods: a StatefulSet has no condition for pods that a quota refuses.
func TestStatefulSetThatLacksPods(t *testing.T) {
	const said = ": pods are missing; kubectl describe statefulset db says whether a quota or admission refuses them"
	tests := map[string]struct {
		spec, status string
		want         bool
	}{
		"no pod":            {"{}", "{observedGeneration: 1, replicas: 0}", true},
		"two of three":      {"{replicas: 3}", "{observedGeneration: 1, replicas: 2, readyReplicas: 2, availableReplicas: 2}", true},
		"the second starts": {"{replicas: 3}", "{observedGeneration: 1, replicas: 2, readyReplicas: 1, availableReplicas: 1}", false},
		"minReadySeconds":   {"{replicas: 3, minReadySeconds: 9}", "{observedGeneration: 1, replicas: 2, readyReplicas: 2, availableReplicas: 1}", false},
		"not observed yet":  {"{}", "{}", false},
		"old generation":    {"{replicas: 3}", "{replicas: 2, readyReplicas: 2, availableReplicas: 2}", false},
		"no pods are meant": {"{replicas: 0}", "{observedGeneration: 1, replicas: 0, readyReplicas: 1}", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Of(object(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, generation: 1}, spec: "+tt.spec+", status: "+tt.status+"}"))

			if strings.HasSuffix(got.Message, said) != tt.want {
				t.Errorf("the message is %q", got.Message)
			}
		})
	}
}
