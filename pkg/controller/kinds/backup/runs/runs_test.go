// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestCachedJobsAreSmall: tenants can write large Jobs.
func TestCachedJobsAreSmall(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: "orders-cronjob", UID: "1", Controller: ptr.To(true)}
	ended := metav1.NewTime(time.Date(2026, 1, 2, 1, 0, 42, 0, time.UTC))
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "orders-1", UID: "2", ResourceVersion: "3",
			CreationTimestamp: ended, Labels: map[string]string{"label": "orders", "large": large},
			Annotations:     map[string]string{batchv1.CronJobScheduledTimestampAnnotation: "2026-01-02T02:00:00+01:00", "large": large},
			OwnerReferences: []metav1.OwnerReference{{Name: "other"}, owner},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: large}},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: large}}},
		Status: batchv1.JobStatus{CompletionTime: &ended, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, Message: large},
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "Reason", Message: "one\ntwo " + large, LastTransitionTime: ended},
		}},
	}

	kept, ok := reduce(job, "label").(*batchv1.Job)

	if !ok {
		t.Fatal("the result is no Job")
	}
	if encoded, err := json.Marshal(kept); err != nil || len(encoded) > 4096 {
		t.Errorf("the cached Job has %d bytes (%v)", len(encoded), err)
	}
	want := metav1.ObjectMeta{
		Namespace: "shop", Name: "orders-1", UID: "2", ResourceVersion: "3", CreationTimestamp: ended, Labels: map[string]string{"label": "orders"},
		Annotations:     map[string]string{batchv1.CronJobScheduledTimestampAnnotation: "2026-01-02T01:00:00Z"},
		OwnerReferences: []metav1.OwnerReference{owner},
	}
	if diff := cmp.Diff(want, kept.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if len(kept.Status.Conditions) != 1 || !strings.HasPrefix(kept.Status.Conditions[0].Message, "one two x") {
		t.Errorf("conditions are %+v, want the failure in one line", kept.Status.Conditions)
	}
}
