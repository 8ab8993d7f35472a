// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRunning reads the deployed revision of another operator and its replicas, for the owner in its record.
func TestRunning(t *testing.T) {
	const workload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}
`
	bubble(t, func(t *testing.T, f *fixture) {
		templates := map[string]string{"templates/a.yaml": configMap("a", "1"), "templates/web.yaml": workload}
		desired := takenOver(t, templates)
		f.operate(made(t, templates), *desired.Owner)
		f.EditSubresource("Deployment", "default/web", "kube-controller-manager", "status", func(object *unstructured.Unstructured) {
			object.Object["status"] = map[string]any{"replicas": int64(3), "readyReplicas": int64(2)}
		})
		f.TakeRequests()

		running, objects, err := f.engine.Running(t.Context(), desired)
		if err != nil {
			t.Fatal(err)
		}
		if running == nil || running.Revision != 1 || running.Chart != desired.Chart.Name() || len(objects) != 1 ||
			objects[0].Replicas != 3 || objects[0].ReadyReplicas != 2 || objects[0].Selector != "app=web" {
			t.Errorf("running is %+v with %+v", running, objects)
		}
		if writes := f.writes(); len(writes) > 0 {
			t.Errorf("the look sent %v", writes)
		}
		other := desired
		other.Owner = other.Owner.DeepCopy()
		other.Owner.UID = "2"
		if running, _, err := f.engine.Running(t.Context(), other); running != nil || err != nil {
			t.Errorf("for another owner, running is %+v, %v", running, err)
		}
	})
}
