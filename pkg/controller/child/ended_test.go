// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/test/expect"
)

// job is a Job that expires after its end.
func job(image string) Desired {
	return batchv1ac.Job("migrate", "").WithSpec(batchv1ac.JobSpec().WithTTLSecondsAfterFinished(5).
		WithTemplate(corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithRestartPolicy(corev1.RestartPolicyNever).
			WithContainers(corev1ac.Container().WithName("a").WithImage(image)))))
}

// ends reports the end of the Job, as its controller does.
func (f *family) ends(condition batchv1.JobConditionType) {
	f.t.Helper()
	f.Act(func() error {
		jobs := f.kube.BatchV1().Jobs("ns")
		found, err := jobs.Get(context.Background(), "migrate", metav1.GetOptions{})
		expect.NoError(f.t, err)
		found.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Message: "by a test"}}
		_, err = jobs.UpdateStatus(context.Background(), found, metav1.UpdateOptions{FieldManager: "kube-controller-manager"})
		return err
	})
}

func (f *family) removeJob() {
	f.t.Helper()
	f.Act(func() error {
		return f.kube.BatchV1().Jobs("ns").Delete(context.Background(), "migrate", metav1.DeleteOptions{})
	})
}

func TestChildThatEndedIsDone(t *testing.T) {
	const failed = "It failed and was deleted by its own rule, such as ttlSecondsAfterFinished; the next change runs it again"
	tests := map[string]struct {
		play     func(f *family)
		requests []string
		ready    string
	}{
		"succeeded and gone": {
			play:  func(f *family) { f.ends(batchv1.JobComplete); f.removeJob() },
			ready: apimeta.ReasonHealthy,
		},
		"succeeded, gone, another process": {
			play:  func(f *family) { f.ends(batchv1.JobComplete); f.removeJob(); f.Stop(); f.start() },
			ready: apimeta.ReasonHealthy,
		},
		"failed and gone": {
			play:  func(f *family) { f.ends(batchv1.JobFailed); f.removeJob(); f.pass() },
			ready: apimeta.ReasonUnhealthy,
		},
		"deleted before its end": {
			play:     func(f *family) { f.removeJob() },
			requests: []string{"patch jobs/migrate"}, ready: apimeta.ReasonProgressing,
		},
		"succeeded, gone, then changed": {
			play: func(f *family) {
				f.ends(batchv1.JobComplete)
				f.removeJob()
				f.desired = []Desired{job("b")}
				f.pass()
			},
			requests: []string{"patch jobs/migrate"}, ready: apimeta.ReasonProgressing,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, job("a"))

				test.play(f)

				expect.Equal(t, "requests", test.requests, f.Take())
				verdict := f.state.VerdictOn(f.desired...)
				expect.Equal(t, "reason", test.ready, verdict.Reason)
				if test.ready == apimeta.ReasonUnhealthy {
					expect.Equal(t, "message", `Job "migrate": `+failed, verdict.Message)
				}
				expect.Equal(t, "children in the status", []string{"jobs"}, applied(f))
			})
		})
	}
}
