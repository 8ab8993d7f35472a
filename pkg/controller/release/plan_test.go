// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/test/expect"
)

func TestObserve(t *testing.T) {
	old, changed := desired(t, "old"), desired(t, "new")
	drifts := []helm.Drift{{Object: object("ConfigMap", "a"), Kind: helm.DriftChanged}}
	own := func(status string) *record.Record {
		return &record.Record{Revision: 2, Status: status, Own: true, Inputs: digest(t, old), Changed: time.Unix(990, 0)}
	}
	foreign := func(status string) *record.Record {
		return &record.Record{Revision: 3, Status: status, Changed: time.Unix(990, 0)}
	}
	healthy := helm.Snapshot{Record: own("deployed"), BaselineKnown: true}
	drifted := helm.Snapshot{Record: own("deployed"), BaselineKnown: true, Drifts: drifts}
	none := helm.Decision{Action: helm.ActionNone}
	upgrade := helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseInputsChanged}
	repair := helm.Decision{Action: helm.ActionRepair, Cause: helm.CauseDrift, Drifts: drifts}
	reapply := helm.Decision{Action: helm.ActionReapply, Cause: helm.CauseBaselineUnknown}
	tests := []struct {
		name     string
		desired  *helm.Release
		held     bool
		observed helm.Snapshot
		want     helm.Decision
		withheld bool
	}{
		{"not installed", old, false, helm.Snapshot{}, helm.Decision{Action: helm.ActionInstall, Cause: helm.CauseNotInstalled}, false},
		{"as desired", old, false, healthy, none, false},
		{"changed inputs", changed, false, healthy, upgrade, false},
		{"drift", old, false, drifted, repair, false},
		{
			"another client is changing the release", old, false,
			helm.Snapshot{Record: foreign("pending-upgrade")},
			helm.Decision{Action: helm.ActionWait, Cause: helm.CauseReleaseChanged, RetryAfter: 50 * time.Second},
			false,
		},
		{"held: not installed", old, true, helm.Snapshot{}, none, true},
		{"held: as desired", old, true, healthy, none, false},
		{"held: changed inputs", changed, true, healthy, none, true},
		{"held: drift of what is deployed", old, true, drifted, repair, false},
		{"held: drift and changed inputs", changed, true, drifted, repair, true},
		{"held: unknown baseline", old, true, helm.Snapshot{Record: own("deployed")}, reapply, false},
		{"held: unknown baseline and changed inputs", changed, true, helm.Snapshot{Record: own("deployed")}, reapply, true},
		{"held: the last attempt failed", old, true, helm.Snapshot{Record: own("failed")}, none, true},
		{"held: the last attempt was interrupted", old, true, helm.Snapshot{Record: own("pending-upgrade")}, none, true},
		{"held: a release of another client", old, true, helm.Snapshot{Record: foreign("deployed")}, none, true},
		{
			"held: another client is changing the release", old, true,
			helm.Snapshot{Record: foreign("pending-upgrade")},
			helm.Decision{Action: helm.ActionWait, Cause: helm.CauseReleaseChanged, RetryAfter: 50 * time.Second},
			false,
		},
		{"unknown: not installed", nil, false, helm.Snapshot{}, none, true},
		{"unknown: deployed", nil, false, healthy, none, true},
		{"unknown: drift of what is deployed", nil, true, drifted, repair, true},
		{"unknown: the last attempt failed", nil, true, helm.Snapshot{Record: own("failed")}, none, true},
		{"unknown: a release of another client", nil, true, helm.Snapshot{Record: foreign("deployed")}, none, true},
		{"unknown: another client is changing the release", nil, true, helm.Snapshot{Record: foreign("pending-rollback")}, none, true},
		{"unknown: uninstalled with history kept", nil, true, helm.Snapshot{Record: foreign("uninstalled")}, none, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			engine := &observer{snapshot: test.observed}
			baseline := helm.Baseline{Revision: 2}
			plan, err := Observe(t.Context(), engine, Request{Key: key, Desired: test.desired, Baseline: baseline})
			if err != nil {
				t.Fatal(err)
			}
			next := plan.Next
			if test.held {
				plan = plan.hold()
			}
			expect.Equal(t, "next decision", next, plan.Next)
			expect.Equal(t, "decision", test.want, plan.Decision)
			expect.Equal(t, "withheld", test.withheld, plan.Withheld)
			if plan.Observed.Record != test.observed.Record {
				t.Error("the plan does not hold what was observed")
			}
			expect.Equal(t, "requested release", key, engine.asked)
			expect.Equal(t, "baseline", baseline, engine.baseline)
		})
	}
}

func TestObserveFails(t *testing.T) {
	render := &helm.RenderError{Chart: "web", Err: errors.New("no JSON")}
	tests := []struct {
		name   string
		engine observer
		want   error
	}{
		{"not synced", observer{observeErr: helm.ErrNotSynced}, helm.ErrNotSynced},
		{"invalid values", observer{decideErr: render}, render},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Observe(t.Context(), &test.engine, Request{Key: key, Desired: desired(t, "x")})
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), key.String()) {
				t.Errorf("error is %v", err)
			}
			expect.Equal(t, "plan", Plan{}, plan)
		})
	}
}

func TestSuspend(t *testing.T) {
	tests := []struct {
		next     helm.Action
		withheld bool
	}{
		{helm.ActionNone, false},
		{helm.ActionRepair, false},
		{helm.ActionReapply, true},
		{helm.ActionInstall, true},
		{helm.ActionUpgrade, true},
		{helm.ActionRollback, true},
		{helm.ActionWait, true},
	}
	for _, test := range tests {
		t.Run(string(test.next), func(t *testing.T) {
			decision := helm.Decision{Action: test.next}
			plan := Plan{Decision: decision, Next: decision}
			plan = plan.suspend()
			plan = plan.hold()
			expect.Equal(t, "decision", helm.Decision{Action: helm.ActionNone}, plan.Decision)
			expect.Equal(t, "next decision", decision, plan.Next)
			expect.Equal(t, "withheld", test.withheld, plan.Withheld)
		})
	}
}

func TestForce(t *testing.T) {
	forced := helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseRequested}
	failed := helm.Decision{Action: helm.ActionUpgrade, Cause: helm.CauseFailed, Replace: 2}
	install := helm.Decision{Action: helm.ActionInstall, Cause: helm.CauseNotInstalled}
	wait := helm.Decision{Action: helm.ActionWait, Cause: helm.CauseReleaseChanged}
	tests := []struct {
		name       string
		next, want helm.Decision
	}{
		{"nothing to do", helm.Decision{Action: helm.ActionNone}, forced},
		{"drift", helm.Decision{Action: helm.ActionRepair, Cause: helm.CauseDrift}, forced},
		{"unknown baseline", helm.Decision{Action: helm.ActionReapply, Cause: helm.CauseBaselineUnknown}, forced},
		{"nothing installed", install, install},
		{"rolled back", helm.Decision{Action: helm.ActionNone, RolledBack: true}, forced},
		{"a failed attempt", failed, failed},
		{"another client is changing the release", wait, wait},
		{"unknown", helm.Decision{}, helm.Decision{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := Plan{Decision: test.next, Next: test.next}
			plan = plan.force()
			expect.Equal(t, "next decision", test.want, plan.Next)
			expect.Equal(t, "decision", test.want, plan.Decision)
		})
	}
}
