// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExplainTakenOverOutside: the annotations by which the engine names the owner are no
// difference.
func TestExplainTakenOverOutside(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := takenOver(t, map[string]string{"templates/role.yaml": outsideRole})
		f.must(desired, ActionInstall, CauseNotInstalled)
		f.Edit("ClusterRole", "outside", "kubectl", change([]any{map[string]any{"verbs": []any{"get"}}}, "rules"))

		explanations := f.explain(desired)

		if len(explanations) != 1 {
			t.Fatalf("explanations are %v", explanations)
		}
		if diff := cmp.Diff([]string{"/rules"}, explanations[0].Fields); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
	})
}
