// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
)

// expressions are an item of healthCheckExprs.
type expressions struct{ InProgress, Failed, Current string }

// evaluate returns the result of the expressions, in the order of Flux.
func (e expressions) evaluate(t *testing.T, object map[string]any) status.Status {
	t.Helper()
	observed, hasObserved := object["status"].(map[string]any)["observedGeneration"].(int64)
	generation, hasGeneration := object["metadata"].(map[string]any)["generation"].(int64)
	if hasObserved && hasGeneration && observed != generation {
		return status.InProgressStatus
	}
	for _, step := range []struct {
		expression string
		result     status.Status
	}{
		{e.InProgress, status.InProgressStatus}, {e.Failed, status.FailedStatus}, {e.Current, status.CurrentStatus},
	} {
		if isTrue(t, step.expression, object) {
			return step.result
		}
	}
	return status.InProgressStatus
}

// isTrue evaluates an expression over the fields of an object.
func isTrue(t *testing.T, expression string, object map[string]any) bool {
	t.Helper()
	var variables []cel.EnvOption
	for name := range object {
		variables = append(variables, cel.Variable(name, cel.DynType))
	}
	environment, err := cel.NewEnv(variables...)
	if err != nil {
		t.Fatal(err)
	}
	compiled, issues := environment.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := environment.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	result, _, err := program.Eval(object)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return result.Value() == true
}

// TestExpressionsOfFlux runs the health check expressions of docs/flux.md.
func TestExpressionsOfFlux(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "flux.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []expressions
	for _, found := range block.FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(found[1], "healthCheckExprs:") {
			item := parse(t, "docs/flux.md", found[1])["spec"].(map[string]any)["healthCheckExprs"].([]any)[0].(map[string]any)
			documented = append(documented, expressions{
				InProgress: item["inProgress"].(string), Failed: item["failed"].(string), Current: item["current"].(string),
			})
		}
	}
	if len(documented) != 1 {
		t.Fatalf("docs/flux.md has %d blocks with healthCheckExprs, expected 1", len(documented))
	}
	tests := []struct {
		name, status string
		expected     status.Status
	}{
		{"before the first pass", `{observedGeneration: -1}`, status.InProgressStatus},
		{"no conditions", `{observedGeneration: 2}`, status.InProgressStatus},
		{"deployed, and pods start", `{observedGeneration: 2, conditions: [
			{type: Deployed, status: "True"}, {type: Ready, status: "False"}, {type: Reconciling, status: "True"}]}`, status.CurrentStatus},
		{"failed", `{observedGeneration: 2, conditions: [
			{type: Deployed, status: "True"}, {type: Ready, status: "False"}, {type: Stalled, status: "True"}]}`, status.FailedStatus},
		{"installation in progress", `{observedGeneration: 2, conditions: [
			{type: Deployed, status: "False"}, {type: Reconciling, status: "True"}]}`, status.InProgressStatus},
		{"held change", `{observedGeneration: 1, conditions: [{type: Deployed, status: "True"}]}`, status.InProgressStatus},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := parse(t, "object", "{metadata: {generation: 2}, status: "+test.status+"}")

			if got := documented[0].evaluate(t, object); got != test.expected {
				t.Errorf("got %s, expected %s", got, test.expected)
			}
		})
	}
}
