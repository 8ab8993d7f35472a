// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/window"
)

// Record is the summary of an owner's runs in its status. It also covers Jobs that were deleted. A
// time is nil if there was no such run.
type Record struct {
	// LastScheduled is the scheduled time of the last started run.
	LastScheduled *metav1.Time
	// LastSucceeded is the end of the last successful run.
	LastSucceeded *metav1.Time
	// LastFailure is the last failed or missed run.
	LastFailure *Failure
	// Next is the start of the next run. It is nil while runs are suspended.
	Next *metav1.Time
}

// Failure is a failed or missed run.
type Failure struct {
	// Time is the time of the failure, or the scheduled time of a missed run.
	Time metav1.Time
	// Job is the name of the Job. It is empty for a missed run.
	Job string
	// Reason is a reason of a condition.
	Reason string
	// Message has one line.
	Message string
}

// IsFailing reports whether the last run failed.
func (r Record) IsFailing() bool {
	return r.LastFailure != nil && (r.LastSucceeded == nil || r.LastFailure.Time.After(r.LastSucceeded.Time))
}

// Plan is the schedule of an owner's runs.
type Plan struct {
	// CronJob is the child that starts the runs.
	CronJob  metav1.Object
	Schedule window.Schedule
	// StartingDeadline is the maximum delay of a start.
	StartingDeadline time.Duration
	Suspended        bool
	// Changed means that the schedule may have changed since Next was computed.
	Changed bool
	// Verdicts explain failures.
	Verdicts Verdicts
}

// Observe updates the record of an owner's runs. It returns the time after which the caller must
// call it again, even without an event of a Job. It sends a request only for a failed Job or a
// missed run.
func (r *Runs) Observe(ctx context.Context, owner cache.ObjectName, record Record, plan Plan, now time.Time) (Record, time.Duration, error) {
	failed := r.addJobs(owner, &record, plan.CronJob, now)
	if failed != nil && (record.LastFailure == nil || failed.at.After(record.LastFailure.Time.Time)) {
		cause, err := r.causeOf(ctx, failed)
		if err != nil {
			return record, 0, err
		}
		record.LastFailure = plan.Verdicts.explain(failed, cause)
	}
	if plan.Suspended {
		record.Next = nil
		return record, 0, nil
	}
	if err := r.checkStart(ctx, &record, plan, now); err != nil {
		return record, 0, err
	}
	if plan.Changed || record.Next == nil || isSince(record.LastScheduled, record.Next.Time) {
		after := later(record.LastScheduled, now)
		next := metav1.NewTime(plan.Schedule.Next(after.Time).UTC())
		record.Next = &next
	}
	// The event of the next Job triggers the next call. This time is for a Job that is never
	// created.
	return record, record.Next.Add(plan.StartingDeadline).Sub(now), nil
}

// Unfinished returns the Jobs that a CronJob, which is a child of the owner, controls and that have
// not ended.
func (r *Runs) Unfinished(owner cache.ObjectName, cronJob metav1.Object) (unfinished []*batchv1.Job) {
	for _, job := range r.cached.ByIndex(owner.Namespace, r.label, owner.String()) {
		if metav1.IsControlledBy(job, cronJob) && len(job.Status.Conditions) == 0 {
			unfinished = append(unfinished, job)
		}
	}
	return unfinished
}

// addJobs adds the Jobs of a CronJob to a record, and returns the Job that failed last. Jobs of
// other CronJobs do not count, for example of a deleted owner with the same name.
func (r *Runs) addJobs(owner cache.ObjectName, record *Record, cronJob metav1.Object, now time.Time) *failedJob {
	var failed *failedJob
	for _, job := range r.cached.ByIndex(owner.Namespace, r.label, owner.String()) {
		if !metav1.IsControlledBy(job, cronJob) {
			continue
		}
		if at, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]); err == nil {
			record.LastScheduled = later(record.LastScheduled, notAfter(now, at, job))
		}
		for _, condition := range job.Status.Conditions {
			switch at := notAfter(now, condition.LastTransitionTime.Time, job); {
			case condition.Type == batchv1.JobComplete && job.Status.CompletionTime != nil:
				record.LastSucceeded = later(record.LastSucceeded, notAfter(now, job.Status.CompletionTime.Time, job))
			case condition.Type == batchv1.JobFailed && (failed == nil || at.After(failed.at)):
				failed = &failedJob{Job: job, at: at, condition: condition}
			}
		}
	}
	return failed
}

// notAfter returns a time from the status of a Job. For a time in the future, it returns the
// creation time of the Job: a wrong clock, or a client that writes the status of Jobs, must not
// hide later runs. The API server sets the creation time, and nobody can change it.
func notAfter(now, at time.Time, job *batchv1.Job) time.Time {
	if at.After(now) {
		return job.CreationTimestamp.Time
	}
	return at
}

// checkStart records a failure if the next run did not start in time. The Job may have been
// deleted, so the CronJob's status decides.
func (r *Runs) checkStart(ctx context.Context, record *Record, plan Plan, now time.Time) error {
	due := record.Next
	if plan.Changed || due == nil || now.Before(due.Add(plan.StartingDeadline)) || isSince(record.LastScheduled, due.Time) {
		return nil
	}
	live, err := r.kube.BatchV1().CronJobs(plan.CronJob.GetNamespace()).Get(ctx, plan.CronJob.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get CronJob %q: %w", plan.CronJob.GetName(), err)
	}
	if live.Status.LastScheduleTime != nil && !live.Status.LastScheduleTime.After(now) {
		record.LastScheduled = later(record.LastScheduled, live.Status.LastScheduleTime.Time)
	}
	if !isSince(record.LastScheduled, due.Time) {
		record.LastFailure, record.Next = plan.Verdicts.missed(due, plan), nil
	}
	return nil
}

// isSince reports whether a time is at or after t.
func isSince(at *metav1.Time, t time.Time) bool { return at != nil && !at.Time.Before(t) }

// later returns the later of two times.
func later(at *metav1.Time, t time.Time) *metav1.Time {
	if isSince(at, t) {
		return at
	}
	converted := metav1.NewTime(t)
	return &converted
}
