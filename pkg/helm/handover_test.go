// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/expect"
)

// scaled is a release of a workload with these replicas; 0 leaves the field out.
func scaled(t *testing.T, kind string, replicas int) Release {
	t.Helper()
	field := ""
	if replicas > 0 {
		field = fmt.Sprintf("  replicas: %d\n", replicas)
	}
	return made(t, map[string]string{"templates/workload.yaml": "apiVersion: apps/v1\nkind: " + kind + "\nmetadata: {name: web}\nspec:\n" + field +
		"  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: main, image: web}]}\n"})
}

// TestReplicasAreHandedOver: replicas that the chart no longer sets stay until another client sets them,
// which is no drift, and the chart can take them back.
func TestReplicasAreHandedOver(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				replicas := func() int64 {
					count, _, _ := unstructured.NestedInt64(f.Object(kind, "default/web").Object, "spec", "replicas")
					return count
				}
				f.must(scaled(t, kind, 6), ActionInstall, CauseNotInstalled)

				f.must(scaled(t, kind, 0), ActionUpgrade, CauseInputsChanged)
				expect.Equal(t, "replicas after the handover", int64(6), replicas())
				f.must(scaled(t, kind, 0), ActionNone, "")

				f.Edit(kind, "default/web", "kube-controller-manager", func(object *unstructured.Unstructured) {
					_ = unstructured.SetNestedField(object.Object, int64(9), "spec", "replicas")
				})
				synctest.Wait()
				f.must(scaled(t, kind, 0), ActionNone, "")
				expect.Equal(t, "replicas of the autoscaler", int64(9), replicas())

				f.must(scaled(t, kind, 2), ActionUpgrade, CauseInputsChanged)
				expect.Equal(t, "replicas of the chart", int64(2), replicas())
			})
		})
	}
}
