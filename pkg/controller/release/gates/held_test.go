// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"slices"
	"testing"

	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/license"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// TestMeasuredGatesNameTheirConditions: metrics count what a gate holds by the condition that it
// sets.
func TestMeasuredGatesNameTheirConditions(t *testing.T) {
	r, upgradeOf := newRollout(t, rollout.Limits{Failed: 1})
	r.queue.Set(cache.NewObjectName("bad", "a"), rollout.Failed)
	denied := &answers{answer: license.Answer{Verdict: license.Denied, Message: "no"}}
	tests := []struct {
		gate    kind.Gate
		verdict release.Verdict
	}{
		{HeldBySuspend(), Suspend(t.Context(), inputOf(t, upgrade, releasev1alpha1.ReleasePolicy{Suspend: true}))},
		{HeldByWindow(), Window(t.Context(), inputOf(t, upgrade, releasev1alpha1.ReleasePolicy{UpgradeWindow: &releasev1alpha1.UpgradeWindow{Schedule: "x"}}))},
		{HeldByRollout(), upgradeOf(cache.NewObjectName("other", "a"))},
		{HeldByLicense(), License(denied, 0, "image")(t.Context(), inputOf(t, upgrade, releasev1alpha1.ReleasePolicy{}))},
	}
	for _, test := range tests {
		t.Run(test.gate.Name, func(t *testing.T) {
			c := test.verdict.Condition
			if c == nil {
				t.Fatalf("the gate is open: %+v", test.verdict)
			}
			expect.Equal(t, "condition", test.gate.Condition, c.Type)
			expect.Equal(t, "status", test.gate.Status, c.Status)
			if reasons := test.gate.Reasons; len(reasons) > 0 && !slices.Contains(reasons, c.Reason) {
				t.Errorf("reason is %s, want one of %v", c.Reason, reasons)
			}
		})
	}
}

// TestRolloutFollowsObjects: an object counts while it has the chart and is not healthy. A pass
// that observed nothing leaves a failure as it is, and a deletion ends it.
func TestRolloutFollowsObjects(t *testing.T) {
	r, _ := newRollout(t, rollout.Limits{Active: 1, Failed: 1})
	in := inputOf(t, nothing, releasev1alpha1.ReleasePolicy{},
		condition(releasev1alpha1.ConditionFailed, "True", releasev1alpha1.ReasonUpgradeFailed))
	r.queue.Set(in.Key, rollout.Failed)

	r.Settle(in.Facts, release.Plan{Next: helm.Decision{}}, *in.Status)
	expect.Equal(t, "counts after a pass without a record", rollout.Counts{Failed: 1, Halted: true}, r.Counts())
	r.Forget(in.Key)
	expect.Equal(t, "counts after a deletion", rollout.Counts{}, r.Counts())
	in.Plan.Observed.Record.ChartDigest = "older"
	r.Settle(in.Facts, in.Plan, newSample().Status)
	expect.Equal(t, "counts with an older chart", rollout.Counts{}, r.Counts())
}
