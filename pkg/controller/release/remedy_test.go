// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

func TestChooseStrategy(t *testing.T) {
	remediation := func(retries int32, strategy releasev1alpha1.RemediationStrategy) *releasev1alpha1.Remediation {
		return &releasev1alpha1.Remediation{Retries: ptr.To(retries), Strategy: strategy}
	}
	times := func(failed int64) releasev1alpha1.FailureCounts {
		return releasev1alpha1.FailureCounts{Consecutive: failed}
	}
	terminal := releasev1alpha1.FailureCounts{Consecutive: 1, Terminal: true}
	tests := []struct {
		name     string
		spec     *releasev1alpha1.Remediation
		failed   releasev1alpha1.FailureCounts
		lastGood int64
		want     strategy
	}{
		{"no remediation", nil, times(100), 1, retry},
		{"nothing failed", remediation(0, releasev1alpha1.RemediationRollback), times(0), 1, retry},
		{"retries are left", remediation(2, releasev1alpha1.RemediationRollback), times(2), 1, retry},
		{"no retries are left", remediation(2, releasev1alpha1.RemediationRollback), times(3), 1, rollBack},
		{"no retries at all", remediation(0, releasev1alpha1.RemediationRollback), times(1), 1, rollBack},
		{"no good revision", remediation(0, releasev1alpha1.RemediationRollback), times(1), 0, leave},
		{"strategy None", remediation(0, releasev1alpha1.RemediationNone), times(1), 1, leave},
		{"retries are left, but cannot succeed", remediation(2, releasev1alpha1.RemediationRollback), terminal, 1, rollBack},
		{"no remediation of a terminal failure", nil, terminal, 1, retry},
		{"defaults: retries are left", &releasev1alpha1.Remediation{}, times(3), 1, retry},
		{"defaults: no retries are left", &releasev1alpha1.Remediation{}, times(4), 1, rollBack},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "strategy", test.want, chooseStrategy(test.spec, test.failed, test.lastGood))
		})
	}
}

// TestPauseAfter: an attempt that was given up is tried again after growing pauses. A rollback and
// the next attempt are never less than a minute apart.
func TestPauseAfter(t *testing.T) {
	spec := &releasev1alpha1.Remediation{Retries: ptr.To[int32](2)}
	terminal := func(failed int64) releasev1alpha1.FailureCounts {
		return releasev1alpha1.FailureCounts{Consecutive: failed, Terminal: true}
	}
	times := func(failed int64) releasev1alpha1.FailureCounts {
		return releasev1alpha1.FailureCounts{Consecutive: failed}
	}
	tests := []struct {
		name         string
		spec         *releasev1alpha1.Remediation
		failed       releasev1alpha1.FailureCounts
		madeRevision bool
		want         time.Duration
	}{
		{"no remediation", nil, times(9), true, 0},
		{"no remediation of a terminal failure", nil, terminal(9), true, 0},
		{"retries are left", spec, times(2), true, 0},
		{"after the last retry", spec, times(3), true, time.Minute},
		{"after one more", spec, times(4), true, 2 * time.Minute},
		{"after many", spec, times(9), true, 30 * time.Minute},
		{"after very many", spec, times(1 << 40), true, 30 * time.Minute},
		{"nothing was changed", spec, times(3), false, 10 * time.Second},
		{"nothing was changed, after many", spec, times(9), false, 5 * time.Minute},
		{"terminal", spec, terminal(1), true, time.Minute},
		{"terminal again", spec, terminal(2), true, 2 * time.Minute},
		{"nothing was changed, terminal", spec, terminal(1), false, 10 * time.Second},
		{"nothing was changed, terminal again", spec, terminal(2), false, 20 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "pause", test.want, pauseAfter(test.spec, test.failed, test.madeRevision))
		})
	}
}

func TestGaveUp(t *testing.T) {
	tests := map[string]releasev1alpha1.FailureCounts{
		"Gave up after 4 failed attempts":                                 {Consecutive: 4},
		"Gave up after 1 failed attempt":                                  {Consecutive: 1},
		"Gave up after 2 failed attempts, because a retry cannot succeed": {Consecutive: 2, Terminal: true},
		"Gave up after 3 failed attempts; the next attempt is at 2026-01-02T03:04:05Z, or after a change of the spec": {
			Consecutive: 3, Terminal: true, RetryAt: &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		},
	}
	for want, failures := range tests {
		if failures.RetryAt == nil {
			want += "; a change of the spec starts afresh"
		}
		expect.Equal(t, "message", want, gaveUp(failures)+afterwards(failures))
	}
}

// TestWaitByAnotherClock: a status may have the time of a clock that was ahead.
func TestWaitByAnotherClock(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := map[string]struct {
		at   *metav1.Time
		wait time.Duration
		due  bool
	}{
		"none follows":         {nil, 0, false},
		"in the past":          {&metav1.Time{Time: now.Add(-time.Hour)}, 0, true},
		"in the longest pause": {&metav1.Time{Time: now.Add(longestRevisionPause)}, longestRevisionPause, false},
		"in a month":           {&metav1.Time{Time: now.AddDate(0, 1, 0)}, 0, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wait, due := waitFor(releasev1alpha1.FailureCounts{RetryAt: test.at}, now)

			expect.Equal(t, "wait", test.wait, wait)
			expect.Equal(t, "due", test.due, due)
		})
	}
}

func TestMaxHistory(t *testing.T) {
	tests := []struct {
		name string
		spec releasev1alpha1.ReleasePolicy
		want int
	}{
		{"the default", releasev1alpha1.ReleasePolicy{}, helm.DefaultMaxHistory},
		{"from the spec", releasev1alpha1.ReleasePolicy{MaxHistory: ptr.To[int32](2)}, 2},
		{
			"enough for all retries",
			releasev1alpha1.ReleasePolicy{
				MaxHistory: ptr.To[int32](2), WaitForReady: true, Remediation: &releasev1alpha1.Remediation{Retries: ptr.To[int32](5)},
			},
			7,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { expect.Equal(t, "revisions", test.want, MaxHistory(test.spec)) })
	}
}
