// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"testing"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release/license"
	"github.com/example/demoapp-controller/test/expect"
)

// TestMeasuredGatesNameTheirConditions: metrics count what a gate holds by the condition that it
// sets.
func TestMeasuredGatesNameTheirConditions(t *testing.T) {
	denied := &answers{answer: license.Answer{Verdict: license.Denied, Message: "no"}}
	tests := []struct {
		gate    kind.Gate
		verdict Verdict
	}{
		{heldBySuspend(), gateSuspend(t.Context(), inputOf(t, upgrade, releasev1alpha1.ReleasePolicy{Suspend: true}))},
		{heldByWindow(), gateWindow(t.Context(), inputOf(t, upgrade, releasev1alpha1.ReleasePolicy{UpgradeWindow: &releasev1alpha1.UpgradeWindow{Schedule: "x"}}))},
		{heldByLicense(), License[string]{Server: denied}.gate("nginx")(t.Context(), inputOf(t, upgrade, releasev1alpha1.ReleasePolicy{}))},
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
