// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/dump"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/runs"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/secretkeys"
	"github.com/example/demoapp-controller/pkg/message"
)

func recordOf(s *backupv1.BackupStatus) runs.Record {
	return runs.Record{
		LastScheduled: s.LastScheduleTime, LastSucceeded: s.LastSuccessfulTime, Next: s.NextScheduleTime,
		LastFailure: (*runs.Failure)(s.LastFailure),
	}
}

// observation has the findings of a pass.
type observation struct {
	state  child.State
	record runs.Record
	// missing is the first Secret or key that is missing, and missingOfBucket the first that the destination misses.
	missing, missingOfBucket *secretkeys.Missing
	// failingPod says which pod of a run does not start, and why.
	failingPod string
}

// summarize makes the status from the results of the steps. Errors come first in Ready, then
// credentials that are missing, then a pod that does not start, then the last run.
func summarize(p *pass, o observation, err, runsErr error) {
	s, conditions, record, missing := &p.Object.Status, p.Conditions(), o.record, o.missing
	s.ObservedGeneration = p.Object.Generation
	s.LastScheduleTime, s.LastSuccessfulTime, s.NextScheduleTime = record.LastScheduled, record.LastSucceeded, record.Next
	s.LastFailure = (*backupv1.Failure)(record.LastFailure)
	scheduled, last := backupv1.ConditionScheduled, backupv1.ConditionLastRunSucceeded
	switch {
	case p.Object.Spec.Suspend:
		conditions.Set(scheduled, metav1.ConditionFalse, backupv1.ReasonSuspended, "spec.suspend is true: no runs are scheduled")
	case s.NextScheduleTime == nil:
		conditions.Set(scheduled, metav1.ConditionFalse, backupv1.ReasonNotScheduled, "The CronJob is not written: Ready says why")
	default:
		conditions.Set(scheduled, metav1.ConditionTrue, backupv1.ReasonScheduled, fmt.Sprintf("CronJob %q starts runs", cronJobName(p.Object)))
	}
	switch {
	case record.IsFailing():
		conditions.Set(last, metav1.ConditionFalse, s.LastFailure.Reason, s.LastFailure.Message)
	case s.LastSuccessfulTime == nil:
		conditions.Set(last, metav1.ConditionUnknown, backupv1.ReasonNoRunYet, "No run has ended")
	default:
		at := s.LastSuccessfulTime.UTC().Format(time.RFC3339)
		conditions.Set(last, metav1.ConditionTrue, backupv1.ReasonRunSucceeded, "The run that ended at "+at+" stored a dump")
	}
	lastRun, _ := conditions.Current(last)
	credentials := dump.Credentials(p.Object, o.missingOfBucket, lastRun)
	conditions.Set(backupv1.ConditionCredentialsConfigured, credentials.Status, credentials.Reason, credentials.Message)
	child.Report(p, o.state, err)
	switch {
	case !meta.IsStatusConditionTrue(s.Conditions, apimeta.ConditionReady):
	case runsErr != nil:
		conditions.MarkReconciling(apimeta.ReasonObserveFailed, message.JoinLines(runsErr.Error()))
	case missing != nil:
		conditions.MarkReconciling(dump.ReasonOf(missing), missing.Message)
	case credentials.Reason == backupv1.ReasonStorageAccountMissing:
		conditions.MarkStalled(credentials.Reason, credentials.Message)
	case o.failingPod != "":
		conditions.MarkReconciling(backupv1.ReasonRunNotStarting, "A run does not start: "+o.failingPod)
	case record.IsFailing():
		conditions.MarkStalled(s.LastFailure.Reason, s.LastFailure.Message)
	}
}

// summarizeInvalid reports an invalid spec. The children stay as they are.
func summarizeInvalid(p *pass, err error) {
	p.Object.Status.ObservedGeneration, p.Object.Status.NextScheduleTime = p.Object.Generation, nil
	p.Conditions().Set(backupv1.ConditionScheduled, metav1.ConditionFalse, backupv1.ReasonInvalidSchedule, message.JoinLines(err.Error()))
	p.Conditions().MarkStalled(backupv1.ReasonInvalidSchedule, message.JoinLines(err.Error()))
}

func transitions(before, after *backupv1.Backup) []event.Event {
	return child.Events(before.Status.Children, after.Status.Children, before.Status.Conditions, after.Status.Conditions)
}
