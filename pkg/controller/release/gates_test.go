// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release/license"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

// inputOf is what a gate decides on when this decision is next.
func inputOf(t *testing.T, next helm.Decision, policy releasev1alpha1.ReleasePolicy, change ...func(*sample)) GateInput {
	t.Helper()
	return GateInput{
		Facts: Facts{
			Key: cache.NewObjectName("ns", "a"), Generation: 1, Now: began, Digest: "inputs",
			Desired: Desired{Known: true, Policy: policy, Release: helm.Release{Chart: testChart(t)}},
		},
		Plan:   Plan{Next: next, Decision: next, Observed: helm.Snapshot{Record: &record.Record{Revision: 1, Own: true, Inputs: "inputs"}}},
		Status: &newSample(change...).Status,
	}
}

// summary is the outcome of a verdict.
type summary struct {
	Condition    string
	Remove       []string
	Blockers     []string
	RequeueAfter time.Duration
}

func summaryOf(verdict Verdict) summary {
	found := summary{Remove: verdict.Remove, RequeueAfter: verdict.RequeueAfter}
	if c := verdict.Condition; c != nil {
		found.Condition = c.Type + " " + string(c.Status) + " " + c.Reason
	}
	for _, b := range verdict.Blockers {
		found.Blockers = append(found.Blockers, b.Reason)
	}
	return found
}

var (
	upgrade = helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInputsChanged}
	repair  = helm.Decision{Action: helm.ActionRepair, Cause: helm.CauseDrift}
	nothing = helm.Decision{Action: helm.ActionNone}
)

func TestGateSuspend(t *testing.T) {
	suspended := releasev1alpha1.ReleasePolicy{Suspend: true}
	tests := []struct {
		name   string
		policy releasev1alpha1.ReleasePolicy
		next   helm.Decision
		want   summary
	}{
		{"not suspended", releasev1alpha1.ReleasePolicy{}, upgrade, summary{Remove: []string{"Suspended"}}},
		{"a change waits", suspended, upgrade, summary{Condition: "Suspended True SuspendedBySpec", Blockers: []string{"SuspendedBySpec"}}},
		{"drift is no change", suspended, repair, summary{Condition: "Suspended True SuspendedBySpec"}},
		{"nothing to do", suspended, nothing, summary{Condition: "Suspended True SuspendedBySpec"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "verdict", test.want, summaryOf(gateSuspend(t.Context(), inputOf(t, test.next, test.policy))))
		})
	}
}

func TestWindow(t *testing.T) {
	policy := func(schedule string) releasev1alpha1.ReleasePolicy {
		return releasev1alpha1.ReleasePolicy{UpgradeWindow: &releasev1alpha1.UpgradeWindow{
			Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC",
		}}
	}
	closed, open, invalid := policy("0 4 * * *"), policy("0 3 * * *"), policy("61 * * * *") // It is 03:04:05.
	held := condition(releasev1alpha1.ConditionUpgradeHeld, "True", releasev1alpha1.ReasonOutsideWindow)
	waits := summary{
		Condition: "UpgradeHeld True OutsideWindow", Blockers: []string{"OutsideWindow"}, RequeueAfter: 55*time.Minute + 55*time.Second,
	}
	interrupted := helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInterrupted}
	tests := []struct {
		name   string
		policy releasev1alpha1.ReleasePolicy
		next   helm.Decision
		force  string
		status []func(*sample)
		want   summary
	}{
		{"no window", releasev1alpha1.ReleasePolicy{}, upgrade, "", nil, summary{}},
		{"outside", closed, upgrade, "", nil, waits},
		{"within", open, upgrade, "", []func(*sample){held}, summary{}},
		{"a user forces the upgrade", closed, upgrade, "now", nil, summary{}},
		{"a first install does not wait", closed, helm.Decision{Action: helm.ActionInstall}, "", nil, summary{}},
		{"a repair does not wait", closed, repair, "", nil, summary{}},
		{"an interrupted upgrade is completed", closed, interrupted, "", nil, summary{}},
		{"an invalid schedule", invalid, nothing, "", nil, summary{Condition: "UpgradeHeld True InvalidSchedule", Blockers: []string{"InvalidSchedule"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := inputOf(t, test.next, test.policy, test.status...)
			in.ForceAt = test.force
			expect.Equal(t, "verdict", test.want, summaryOf(gateWindow(t.Context(), in)))
		})
	}
}

// answers is a license server with one answer, which counts the questions.
type answers struct {
	answer license.Answer
	asked  int
}

// Ask implements Licenses.
func (a *answers) Ask(context.Context, license.Subject, bool) license.Answer {
	a.asked++
	return a.answer
}

func TestLicense(t *testing.T) {
	granted := condition(releasev1alpha1.ConditionLicensed, "True", releasev1alpha1.ReasonLicenseGranted)
	denied := condition(releasev1alpha1.ConditionLicensed, "False", releasev1alpha1.ReasonLicenseDenied)
	tests := []struct {
		name   string
		next   helm.Decision
		answer license.Verdict
		status []func(*sample)
		asked  int
		want   summary
	}{
		{"granted", upgrade, license.Granted, nil, 1, summary{Condition: "Licensed True LicenseGranted"}},
		{"denied", upgrade, license.Denied, nil, 1, summary{Condition: "Licensed False LicenseDenied", Blockers: []string{"LicenseDenied"}}},
		{"nothing to ask for", nothing, license.Denied, nil, 0, summary{}},
		{"the last answer stays", nothing, license.Denied, []func(*sample){granted}, 0, summary{Condition: "Licensed True LicenseGranted"}},
		{"a refused change is no longer desired", repair, license.Denied, []func(*sample){denied}, 0, summary{Remove: []string{"Licensed"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := &answers{answer: license.Answer{Verdict: test.answer}}

			verdict := License[string]{Server: server, Retry: time.Minute}.gate("nginx")(t.Context(), inputOf(t, test.next, releasev1alpha1.ReleasePolicy{}, test.status...))

			if again := verdict.RequeueAfter; (again > 0) != (len(test.want.Blockers) > 0) || again > 2*time.Minute {
				t.Errorf("asks again in %v", again)
			}
			verdict.RequeueAfter = 0 // It is jittered.
			expect.Equal(t, "verdict", test.want, summaryOf(verdict))
			expect.Equal(t, "questions", test.asked, server.asked)
		})
	}
	expect.Equal(t, "without a server", summary{Remove: []string{"Licensed"}},
		summaryOf(License[string]{}.gate("nginx")(t.Context(), inputOf(t, upgrade, releasev1alpha1.ReleasePolicy{}))))
}
