// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/message"
)

// maxCause bounds the cause of a failure in a message, in bytes.
const maxCause = 500

// Verdict explains a failure.
type Verdict struct {
	// Reason is the reason of a condition.
	Reason string
	// Field is the field of the owner that causes the failure. Optional.
	Field string
	// Advice is the remedy. {job} is replaced by the name of the Job.
	Advice string
}

// Verdicts has the verdicts for all failures.
type Verdicts struct {
	// Containers has the verdicts by container and exit code. The code 0 means all codes that are
	// not listed.
	Containers map[string]map[int32]Verdict
	// Deadline is for runs that did not end in time. Missed is for runs that did not start. Other
	// is for failed runs without a known failed container.
	Deadline, Missed, Other Verdict
}

// failedJob is a failed Job.
type failedJob struct {
	*batchv1.Job

	at        time.Time
	condition batchv1.JobCondition
}

// cause is the container that caused the failure of a Job. All fields are zero if no failed pod
// exists any more.
type cause struct {
	container string
	exitCode  int32
	message   string
}

// explain returns the failure of a Job in terms of its owner.
func (v Verdicts) explain(failed *failedJob, because cause) *Failure {
	codes, known := v.Containers[because.container]
	verdict, listed := codes[because.exitCode]
	switch {
	case failed.condition.Reason == batchv1.JobReasonDeadlineExceeded:
		verdict = v.Deadline
	case !known:
		verdict = v.Other
	case !listed:
		verdict = codes[0]
	}
	text := because.message
	if text == "" {
		text = failed.condition.Message
	}
	return &Failure{
		Time: metav1.NewTime(failed.at), Job: failed.Name, Reason: verdict.Reason, Message: verdict.message(text, failed.Name),
	}
}

func (v Verdicts) missed(due *metav1.Time, plan Plan) *Failure {
	text := fmt.Sprintf("no run started at %s, or within %v after it", due.UTC().Format(time.RFC3339), plan.StartingDeadline)
	return &Failure{Time: *due, Reason: v.Missed.Reason, Message: v.Missed.message(text, "")}
}

func (v Verdict) message(text, job string) string {
	text = message.Truncate(text, maxCause) + ": " + strings.ReplaceAll(v.Advice, "{job}", job)
	if v.Field == "" {
		return text
	}
	return v.Field + ": " + text
}

// causeOf lists the pods of a Job and returns the container that caused its failure.
func (r *Runs) causeOf(ctx context.Context, failed *failedJob) (cause, error) {
	pods, err := r.kube.CoreV1().Pods(failed.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: batchv1.JobNameLabel + "=" + failed.Name, Limit: 20,
	})
	if err != nil {
		return cause{}, fmt.Errorf("list the pods of Job %q: %w", failed.Name, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for i := range pods.Items {
		if pod := &pods.Items[i]; metav1.IsControlledBy(pod, failed) {
			if found := causeIn(pod); found != (cause{}) {
				return found, nil
			}
		}
	}
	return cause{}, nil
}

// causeIn returns the first failed container of a pod. Init containers come first.
func causeIn(pod *corev1.Pod) cause {
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch ended, waiting := container.State.Terminated, container.State.Waiting; {
		case ended != nil && ended.ExitCode != 0:
			text := ended.Message
			if text == "" {
				text = fmt.Sprintf("container %s ended with exit code %d: %s", container.Name, ended.ExitCode, ended.Reason)
			}
			return cause{container.Name, ended.ExitCode, oneLine(text)}
		case waiting != nil && waiting.Message != "":
			return cause{container: container.Name, message: oneLine(waiting.Reason + ": " + waiting.Message)}
		}
	}
	return cause{message: oneLine(pod.Status.Message)}
}
