// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

func TestDecide(t *testing.T) {
	const inputs, patience = "0123", 5 * time.Minute
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	drifts := []Drift{{Object: ObjectReference{Kind: "ConfigMap", Name: "web"}, Kind: DriftChanged}}
	entry := func(revision int, status string) *record.Record {
		return &record.Record{Revision: revision, Status: status, Own: true, Inputs: inputs, Changed: now.Add(-time.Minute)}
	}
	foreign := func(revision int, status string, age time.Duration) *record.Record {
		return &record.Record{Revision: revision, Status: status, Changed: now.Add(-age)}
	}
	other := func(r *record.Record) *record.Record {
		r.Inputs = "4567"
		return r
	}
	// The desired inputs were given up for the inputs of revision 2.
	rollback := func(status string) *record.Record {
		return &record.Record{Revision: 4, Status: status, Own: true, Inputs: "4567", RolledBackTo: 2, Abandoned: inputs}
	}
	elsewhere := func(r *record.Record) *record.Record {
		r.Abandoned = "89ab"
		return r
	}
	back := func(r *record.Record) *record.Record {
		r.Inputs, r.Abandoned = inputs, "89ab"
		return r
	}
	verified := []record.Digest{{Revision: 2, Digest: "digest"}}
	tests := map[string]struct {
		observed Snapshot
		want     Decision
	}{
		"rolled back": {
			observed: Snapshot{Record: rollback("deployed"), BaselineKnown: true},
			want:     Decision{Action: ActionNone, RolledBack: true},
		},
		"rolled back, and drifted": {
			observed: Snapshot{Record: rollback("deployed"), BaselineKnown: true, Drifts: drifts},
			want:     Decision{Action: ActionRepair, Cause: CauseDrift, Drifts: drifts, RolledBack: true},
		},
		"rolled back, and the baseline not known": {
			observed: Snapshot{Record: rollback("deployed")},
			want:     Decision{Action: ActionReapply, Cause: CauseBaselineUnknown, RolledBack: true},
		},
		"rolled back, and now other inputs": {
			observed: Snapshot{Record: elsewhere(rollback("deployed")), BaselineKnown: true},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInputsChanged},
		},
		"rolled back to what is desired again": {
			observed: Snapshot{Record: back(rollback("deployed")), BaselineKnown: true},
			want:     Decision{Action: ActionNone},
		},
		"rollback failed": {
			observed: Snapshot{Record: rollback("failed"), Revisions: verified},
			want:     Decision{Action: ActionRollback, Cause: CauseFailed, Replace: 4, To: 2},
		},
		"rollback failed, and now other inputs": {
			observed: Snapshot{Record: elsewhere(rollback("failed"))},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInputsChanged},
		},
		"rollback failed, and its target cannot be relied on": {
			observed: Snapshot{Record: rollback("failed")},
			want:     Decision{Action: ActionUpgrade, Cause: CauseFailed, Replace: 4},
		},
		"rolled back, and the record cannot be relied on": {
			observed: Snapshot{Record: rollback("deployed"), Revisions: verified, Unverified: true},
			want:     Decision{Action: ActionRollback, Cause: CauseUnverified, Replace: 4, To: 2, RolledBack: true},
		},
		"rolled back, and neither record can be relied on": {
			observed: Snapshot{Record: rollback("deployed"), Unverified: true},
			want:     Decision{Action: ActionUpgrade, Cause: CauseUnverified, Replace: 4},
		},
		"rollback was interrupted": {
			observed: Snapshot{Record: rollback("pending-rollback"), Revisions: verified},
			want:     Decision{Action: ActionRollback, Cause: CauseInterrupted, Replace: 4, To: 2},
		},
		"rollback was interrupted, and now other inputs": {
			observed: Snapshot{Record: elsewhere(rollback("pending-rollback"))},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInterrupted, Replace: 4},
		},
		"no record": {
			want: Decision{Action: ActionInstall, Cause: CauseNotInstalled},
		},
		"as desired": {
			observed: Snapshot{Record: entry(3, "deployed"), BaselineKnown: true},
			want:     Decision{Action: ActionNone},
		},
		"drifted": {
			observed: Snapshot{Record: entry(3, "deployed"), BaselineKnown: true, Drifts: drifts},
			want:     Decision{Action: ActionRepair, Cause: CauseDrift, Drifts: drifts},
		},
		"baseline not known": {
			observed: Snapshot{Record: entry(3, "deployed")},
			want:     Decision{Action: ActionReapply, Cause: CauseBaselineUnknown},
		},
		"other inputs": {
			observed: Snapshot{Record: other(entry(3, "deployed")), BaselineKnown: true},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInputsChanged},
		},
		"other inputs come before drift": {
			observed: Snapshot{Record: other(entry(3, "deployed")), BaselineKnown: true, Drifts: drifts},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInputsChanged},
		},
		"other inputs after a failure": {
			observed: Snapshot{Record: other(entry(3, "failed"))},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInputsChanged},
		},
		"other inputs after a failed install": {
			observed: Snapshot{Record: other(entry(1, "failed"))},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInputsChanged},
		},
		"upgraded by another client": {
			observed: Snapshot{Record: foreign(4, "deployed", time.Hour), BaselineKnown: true},
			want:     Decision{Action: ActionUpgrade, Cause: CauseReleaseChanged},
		},
		"upgrade by another client failed": {
			observed: Snapshot{Record: foreign(4, "failed", time.Hour)},
			want:     Decision{Action: ActionUpgrade, Cause: CauseReleaseChanged},
		},
		"uninstalled by another client, history kept": {
			observed: Snapshot{Record: entry(4, "uninstalled")},
			want:     Decision{Action: ActionInstall, Cause: CauseReleaseChanged},
		},
		"being uninstalled by another client": {
			observed: Snapshot{Record: foreign(4, "uninstalling", time.Minute)},
			want:     Decision{Action: ActionWait, Cause: CauseReleaseChanged, RetryAfter: 4 * time.Minute},
		},
		"uninstall was given up by another client": {
			observed: Snapshot{Record: foreign(4, "uninstalling", 5*time.Minute)},
			want:     Decision{Action: ActionInstall, Cause: CauseReleaseChanged},
		},
		"superseded, and nothing newer": {
			observed: Snapshot{Record: entry(4, "superseded")},
			want:     Decision{Action: ActionUpgrade, Cause: CauseReleaseChanged},
		},
		"unknown status": {
			observed: Snapshot{Record: entry(4, "unknown"), BaselineKnown: true},
			want:     Decision{Action: ActionUpgrade, Cause: CauseReleaseChanged},
		},
		"install failed": {
			observed: Snapshot{Record: entry(1, "failed")},
			want:     Decision{Action: ActionInstall, Cause: CauseFailed, Replace: 1},
		},
		"upgrade failed": {
			observed: Snapshot{Record: entry(2, "failed")},
			want:     Decision{Action: ActionUpgrade, Cause: CauseFailed, Replace: 2},
		},
		"own install was interrupted": {
			observed: Snapshot{Record: entry(1, "pending-install")},
			want:     Decision{Action: ActionInstall, Cause: CauseInterrupted, Replace: 1},
		},
		"own upgrade was interrupted, whatever it was for": {
			observed: Snapshot{Record: other(entry(2, "pending-upgrade"))},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInterrupted, Replace: 2},
		},
		"another client is at work": {
			observed: Snapshot{Record: foreign(2, "pending-upgrade", 2*time.Minute)},
			want:     Decision{Action: ActionWait, Cause: CauseReleaseChanged, RetryAfter: 3 * time.Minute},
		},
		"another client's clock is ahead": {
			observed: Snapshot{Record: foreign(2, "pending-rollback", -time.Minute)},
			want:     Decision{Action: ActionWait, Cause: CauseReleaseChanged, RetryAfter: 6 * time.Minute},
		},
		"another client gave up at an upgrade": {
			observed: Snapshot{Record: foreign(2, "pending-rollback", patience)},
			want:     Decision{Action: ActionUpgrade, Cause: CauseInterrupted, Replace: 2},
		},
		"another client gave up at an install": {
			observed: Snapshot{Record: foreign(1, "pending-install", time.Hour)},
			want:     Decision{Action: ActionInstall, Cause: CauseInterrupted, Replace: 1},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Decide(inputs, tc.observed, now, patience)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
