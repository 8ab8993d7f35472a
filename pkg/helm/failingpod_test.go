// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/expect"
)

func TestFailingPod(t *testing.T) {
	const (
		pods, events = "list pods default", "list events default"
		refused      = "pods is forbidden: exceeded quota: small; raise the ResourceQuota small, or lower what the pods request"
	)
	tests := []struct {
		name, workload, controller, phase, reason string
		missing                                   string
		want                                      string
		requests                                  []string
	}{
		{
			"pod that does not start", "Job", "Job", "Pending", "ErrImagePull", "",
			`pod web-a: container "web": ImagePullBackOff: the image "a:1" cannot be pulled; check that the image exists, and that the nodes may pull it`,
			[]string{pods},
		},
		{
			"pod that crashes", "StatefulSet", "StatefulSet", "Running", "CrashLoopBackOff", ": pods are missing",
			`pod web-a: container "web": CrashLoopBackOff; kubectl logs --previous shows why the process ends`,
			[]string{pods, pods},
		},
		{"pod that runs", "Job", "Job", "Running", "", "", "", []string{pods, pods, pods}},
		{"pod that failed", "Job", "Job", "Failed", "", "", "pod web-a: Failed: the pod has failed; kubectl describe pod has the details", []string{pods, pods, pods}},
		{"pod of another workload", "DaemonSet", "StatefulSet", "Pending", "ErrImagePull", "", refused, []string{pods, pods, events}},
		{"DaemonSet with a pod", "DaemonSet", "DaemonSet", "Running", "", "", "", []string{pods, pods}},
		{"Job without pods", "Job", "StatefulSet", "Running", "", "; kubectl describe job web", refused, []string{pods, pods, pods, events}},
		{"Job that has not started", "Job", "StatefulSet", "Running", "", "", "", []string{pods, pods, pods}},
		{"StatefulSet that lacks a pod", "StatefulSet", "StatefulSet", "Running", "", ": pods are missing", refused, []string{pods, pods, events}},
		{"StatefulSet that lacks none", "StatefulSet", "StatefulSet", "Running", "", "", "", []string{pods, pods}},
		{"Deployment without pods", "Deployment", "Job", "Pending", "ErrImagePull", "", "", []string{pods, pods, pods}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				f.Serve(schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", true)
				f.Edit("Pod", "default/web-a", "kubelet", func(object *unstructured.Unstructured) {
					controller := true
					object.SetLabels(map[string]string{"app": "web"})
					object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: tt.controller, Name: "web", UID: "7", Controller: &controller}})
					container := map[string]any{"name": "web", "image": "a:1"}
					if tt.reason != "" {
						container["state"] = map[string]any{"waiting": map[string]any{"reason": tt.reason}}
					}
					object.Object["status"] = map[string]any{"phase": tt.phase, "containerStatuses": []any{container}}
				})
				f.Edit("Event", "default/web.1", "controller", func(object *unstructured.Unstructured) {
					object.Object["involvedObject"] = map[string]any{"kind": tt.workload, "name": "web"}
					object.Object["reason"], object.Object["message"] = "FailedCreate", `Error creating: pods "web-b" is forbidden: exceeded quota: small`
				})
				f.TakeRequests()

				got, err := f.engine.FailingPod(t.Context(), ObjectHealth{
					Object: ObjectReference{Kind: tt.workload, Namespace: "default", Name: "web"},
					Health: Health{Selector: "app=web", PodsMissing: tt.missing},
				})

				expect.NoError(t, err)
				expect.Equal(t, "why", tt.want, got)
				expect.Equal(t, "requests", tt.requests, f.TakeRequests())
			})
		})
	}
}

// TestFailingPodWithEvents: only events say why a pod gets no volumes.
func TestFailingPodWithEvents(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.Serve(schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", true)
		pod := f.Edit("Pod", "default/web-a", "kubelet", func(object *unstructured.Unstructured) {
			controller := true
			object.SetLabels(map[string]string{"app": "web"})
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "StatefulSet", Name: "web", UID: "7", Controller: &controller}})
			condition := map[string]any{"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": "1970-01-01T00:00:00Z"}
			object.Object["status"] = map[string]any{"phase": "Pending", "conditions": []any{condition}}
		})
		f.Edit("Event", "default/web-a.1", "kubelet", func(object *unstructured.Unstructured) {
			object.Object["involvedObject"] = map[string]any{"uid": string(pod.GetUID())}
			object.Object["type"], object.Object["reason"], object.Object["message"] = "Warning", "FailedMount", `configmap "settings" not found`
			object.Object["lastTimestamp"] = "1970-01-01T00:00:10Z"
		})

		got, err := f.engine.FailingPod(t.Context(), ObjectHealth{
			Object: ObjectReference{Kind: "StatefulSet", Namespace: "default", Name: "web"}, Health: Health{Selector: "app=web"},
		})

		expect.NoError(t, err)
		expect.Equal(t, "why", `pod web-a: FailedMount: configmap "settings" not found; create what is missing, or correct its name`, got)
	})
}
