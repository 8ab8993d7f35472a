// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/test/expect"
)

// TestStatusFromBeforeTheRoll: a status that the cache shows after a roll, and that its controller wrote
// before, says nothing about the roll.
func TestStatusFromBeforeTheRoll(t *testing.T) {
	metaOf := func(generation int64, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web", Generation: generation, ResourceVersion: version}
	}
	pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "shop-config"}}},
	}}}}}
	kinds := map[string]func(generation, observed int64, version string) any{
		"Deployment": func(generation, observed int64, version string) any {
			return &appsv1.Deployment{
				ObjectMeta: metaOf(generation, version), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Template: pods},
				Status: appsv1.DeploymentStatus{
					ObservedGeneration: observed, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
					Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
				},
			}
		},
		"StatefulSet": func(generation, observed int64, version string) any {
			return &appsv1.StatefulSet{
				ObjectMeta: metaOf(generation, version), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Template: pods},
				Status: appsv1.StatefulSetStatus{
					ObservedGeneration: observed, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1,
					CurrentRevision: "one", UpdateRevision: "one",
				},
			}
		},
		"DaemonSet": func(generation, observed int64, version string) any {
			return &appsv1.DaemonSet{
				ObjectMeta: metaOf(generation, version), Spec: appsv1.DaemonSetSpec{Template: pods},
				Status: appsv1.DaemonSetStatus{
					ObservedGeneration: observed, DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberReady: 1, NumberAvailable: 1,
				},
			}
		},
	}
	options := Options{Label: "reload", Suffix: "-config", Annotation: "hash-"}
	for kind, object := range kinds {
		t.Run(kind, func(t *testing.T) {
			now := time.Now()
			w := &Workloads{options: options}
			w.rolls.Set("web", 2, cacheLag, now)
			statusOf := func(generation, observed int64, version string) kstatus.Status {
				reduced, err := options.reduce(object(generation, observed, version))
				expect.NoError(t, err)
				return w.rolledBefore(reduced.(*workload), now).Status
			}

			expect.Equal(t, "before the cache has seen the roll", kstatus.InProgressStatus, statusOf(1, 1, "10"))
			expect.Equal(t, "after a later status from before the roll", kstatus.InProgressStatus, statusOf(1, 1, "11"))
			expect.Equal(t, "before the controller has seen the roll", kstatus.InProgressStatus, statusOf(2, 1, "12"))
			expect.Equal(t, "after the roll", kstatus.CurrentStatus, statusOf(2, 2, "13"))
			expect.Equal(t, "after a later change", kstatus.CurrentStatus, statusOf(3, 3, "14"))
		})
	}
}
