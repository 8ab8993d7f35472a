// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/utils/ptr"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/redact"
	"github.com/example/demoapp-controller/test/expect"
)

// factsOf returns the facts of a known release with a policy, a minute after its change began.
func factsOf(t *testing.T, policy releasev1alpha1.ReleasePolicy) Facts {
	t.Helper()
	return Facts{
		Key: key, Generation: 1, Now: began.Add(time.Minute), Digest: "inputs", InputVersion: "version",
		Desired: Desired{Release: *desired(t, "x"), Known: true, Policy: policy, Redactor: redact.New(nil)},
	}
}

// revisionOf is a plan that keeps revision 2, whose objects have a health.
func revisionOf(health status.Status) Plan {
	return Plan{Next: helm.Decision{Action: helm.ActionNone}, Observed: helm.Snapshot{
		Record:        &record.Record{Revision: 2, Status: "deployed", Own: true, Inputs: "inputs", Changed: began},
		BaselineKnown: true,
		Revisions:     []record.Digest{{Revision: 1, Digest: "d1"}, {Revision: 2, Digest: "d2"}},
		Health: []helm.ObjectHealth{{
			Object: object("Deployment", "a"), Health: helm.Health{Status: health, Message: "0 of 1 pods"},
		}},
	}}
}

// deployedAt is a status whose deployed revision is 2, and whose last good one is good.
func deployedAt(good int64) releasev1alpha1.ReleaseStatus {
	return releasev1alpha1.ReleaseStatus{DeployedRelease: &releasev1alpha1.DeployedRelease{Revision: 2}, LastGoodRevision: good}
}

func TestJudgeHealth(t *testing.T) {
	waits := releasev1alpha1.ReleasePolicy{WaitForReady: true}
	repairs := revisionOf(status.InProgressStatus)
	repairs.Next.Action = helm.ActionRepair
	upgrades := revisionOf(status.InProgressStatus)
	upgrades.Next.Action = helm.ActionUpgrade
	rolledBack := revisionOf(status.InProgressStatus)
	rolledBack.Next.RolledBack = true
	unknown := revisionOf(status.InProgressStatus)
	unknown.Observed.BaselineKnown = false
	marked := revisionOf(status.InProgressStatus)
	marked.Observed.Record.Unhealthy = true
	late := "Revision 2 is not healthy after 5m0s: Deployment a: 0 of 1 pods"
	tests := []struct {
		name   string
		policy releasev1alpha1.ReleasePolicy
		plan   Plan
		status releasev1alpha1.ReleaseStatus
		after  time.Duration
		want   health
	}{
		{"not deployed", waits, revisionOf(status.InProgressStatus), releasev1alpha1.ReleaseStatus{}, time.Hour, health{}},
		{"another revision is desired", waits, upgrades, deployedAt(1), time.Hour, health{}},
		{"rolled back", waits, rolledBack, deployedAt(1), time.Hour, health{}},
		{"the objects are not known", waits, unknown, deployedAt(1), time.Hour, health{}},
		{"healthy", waits, revisionOf(status.CurrentStatus), deployedAt(1), time.Hour, health{judged: true}},
		{"was healthy before", waits, revisionOf(status.InProgressStatus), deployedAt(2), time.Hour, health{judged: true}},
		{"the policy does not wait", releasev1alpha1.ReleasePolicy{}, revisionOf(status.InProgressStatus), deployedAt(1), time.Hour, health{judged: true}},
		{"time is left", waits, revisionOf(status.InProgressStatus), deployedAt(1), time.Minute, health{judged: true, timeLeft: 4 * time.Minute}},
		{"time is up", waits, revisionOf(status.InProgressStatus), deployedAt(1), 5 * time.Minute, health{judged: true, late: late}},
		{"time is up while drift is left", waits, repairs, deployedAt(1), 5 * time.Minute, health{judged: true, late: late}},
		{"was marked as failed before", waits, marked, deployedAt(1), time.Minute, health{judged: true, late: late}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := factsOf(t, test.policy)
			f.Now = began.Add(test.after)
			if got := judgeHealth(f, test.plan, test.status); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestRemediate(t *testing.T) {
	failing := revisionOf(status.InProgressStatus).next(helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseFailed})
	failing.Observed.Record.Inputs = "older"
	rolledBack := revisionOf(status.CurrentStatus)
	rolledBack.Next.RolledBack, rolledBack.Observed.Record.RolledBackTo = true, 1
	unverified := failing
	unverified.Observed.Revisions = nil
	failed := func(times int64, good int64) releasev1alpha1.ReleaseStatus {
		s := deployedAt(good)
		s.Failures = &releasev1alpha1.FailureCounts{Consecutive: times, Generation: 1, Inputs: "version"}
		return s
	}
	ofAnotherSpec := failed(9, 1)
	ofAnotherSpec.Failures.Generation = 7
	policy := releasev1alpha1.ReleasePolicy{Remediation: &releasev1alpha1.Remediation{Retries: ptr.To[int32](1)}}
	rollback := helm.Decision{Action: helm.ActionRollback, Cause: helm.CauseFailed, To: 1}
	none := helm.Decision{Action: helm.ActionNone}
	tests := []struct {
		name   string
		policy releasev1alpha1.ReleasePolicy
		plan   Plan
		status releasev1alpha1.ReleaseStatus
		next   helm.Decision
		reason string
		keep   bool
	}{
		{"no policy", releasev1alpha1.ReleasePolicy{}, failing, failed(9, 1), failing.Next, "", false},
		{"retries are left", policy, failing, failed(1, 1), failing.Next, "", false},
		{"failures of another spec", policy, failing, ofAnotherSpec, failing.Next, "", false},
		{"no retries are left", policy, failing, failed(2, 1), rollback, "", true},
		{"no good revision", policy, failing, failed(2, 0), none, releasev1alpha1.ReasonRetriesExhausted, false},
		{"the good revision is the deployed one", policy, failing, failed(2, 2), none, releasev1alpha1.ReasonRetriesExhausted, false},
		{"the record of the good revision was changed", policy, unverified, failed(2, 1), none, releasev1alpha1.ReasonRetriesExhausted, false},
		{"nothing to do", policy, revisionOf(status.CurrentStatus), failed(2, 1), none, "", false},
		{"rolled back", policy, rolledBack, failed(2, 1), rolledBack.Next, releasev1alpha1.ReasonRolledBack, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := remediate(factsOf(t, test.policy), test.plan, test.status)
			expect.Equal(t, "next", test.next, got.plan.Next)
			expect.Equal(t, "reason", test.reason, got.reason)
			expect.Equal(t, "keeps what the status says", test.keep, got.keep)
		})
	}
}

func TestRemediationStaysWhileTheReleaseIsUnknown(t *testing.T) {
	f := factsOf(t, releasev1alpha1.ReleasePolicy{})
	f.Desired.Known = false
	given := releasev1alpha1.ReleaseStatus{}
	s := newSample(func(s *sample) { s.Generation = 1 },
		condition(releasev1alpha1.ConditionRemediated, "True", releasev1alpha1.ReasonRetriesExhausted))

	expect.Equal(t, "with the condition", true, remediate(f, Plan{}, s.Status).keep)
	expect.Equal(t, "without it", false, remediate(f, Plan{}, given).keep)
}

func TestHoldIfBlocked(t *testing.T) {
	dependency := Blocker{Reason: "Waiting", NotForRollback: true}
	license := Blocker{Reason: releasev1alpha1.ReasonLicenseDenied}
	upgrade := revisionOf(status.CurrentStatus).next(helm.Decision{Action: helm.ActionUpgrade})
	rollback := revisionOf(status.CurrentStatus).next(helm.Decision{Action: helm.ActionRollback, To: 1})
	tests := []struct {
		name     string
		plan     Plan
		blockers []Blocker
		withheld bool
		left     []Blocker
	}{
		{"nothing blocks", upgrade, nil, false, nil},
		{"a dependency blocks an upgrade", upgrade, []Blocker{dependency}, true, []Blocker{dependency}},
		{"a dependency does not block a rollback", rollback, []Blocker{dependency}, false, []Blocker{}},
		{"a gate blocks a rollback", rollback, []Blocker{dependency, license}, true, []Blocker{license}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan, left := test.plan.holdIfBlocked(test.blockers)
			expect.Equal(t, "withheld", test.withheld, plan.Withheld)
			expect.Equal(t, "blockers", test.left, left)
		})
	}
}

func TestAttemptFailed(t *testing.T) {
	failed := condition(releasev1alpha1.ConditionFailed, "True", apimeta.ReasonRefused)
	after := func(action releasev1alpha1.HistoryAction) func(*sample) {
		return func(s *sample) { s.Status.Failures = &releasev1alpha1.FailureCounts{Action: action} }
	}
	tests := []struct {
		name   string
		sample *sample
		want   bool
	}{
		{"nothing failed", newSample(after(releasev1alpha1.HistoryUpgrade)), false},
		{"an upgrade", newSample(failed, after(releasev1alpha1.HistoryUpgrade)), true},
		{"a repair", newSample(failed, after(releasev1alpha1.HistoryRepair)), false},
		{"before any action", newSample(failed), true},
		{
			"a refused repair, of which an earlier version wrote no action",
			newSample(failed, func(s *sample) {
				s.Status.History = []releasev1alpha1.HistoryEntry{
					{Action: releasev1alpha1.HistoryRepair, Outcome: releasev1alpha1.HistoryFailed},
					{Action: releasev1alpha1.HistoryUpgrade, Outcome: releasev1alpha1.HistoryFailed},
				}
			}), false,
		},
		{
			"a repair, of which an earlier version wrote no action",
			newSample(condition(releasev1alpha1.ConditionFailed, "True", releasev1alpha1.ReasonRepairFailed)), false,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &subject{status: &test.sample.Status}
			expect.Equal(t, "attempt failed", test.want, s.attemptFailed())
		})
	}
}
