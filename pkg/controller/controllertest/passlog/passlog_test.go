// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package passlog

import (
	"strings"
	"testing"
)

func TestProblems(t *testing.T) {
	const full = `"controller":"websites","object":{"name":"web","namespace":"ns"},"generation":1,"reconcileID":"0a1b2c3d","reason":"SpecChange|Retry"`
	tests := []struct {
		name, line, problem string
		passes              int
	}{
		{"a line of a pass", `{"msg":"Event",` + full + `}`, "", 1},
		{"a line of a controller", `{"msg":"Starting","controller":"websites"}`, "", 0},
		{"a line of the process", `{"msg":"Serving","address":"[::]:8080"}`, "", 0},
		{"no JSON", `level=INFO msg=Event`, "no JSON", 0},
		{"an error outside of a pass", `{"level":"ERROR","msg":"Failed","controller":"websites"}`, "object, generation, reconcileID, reason", 1},
		{"no controller", `{"msg":"Event",` + strings.Replace(full, "controller", "kind", 1) + `}`, "no valid controller", 1},
		{"no generation", `{"msg":"Event",` + strings.Replace(full, "generation", "version", 1) + `}`, "no valid generation", 1},
		{"a number for the reason", `{"msg":"Event",` + strings.Replace(full, `"SpecChange|Retry"`, "33", 1) + `}`, "no valid reason", 1},
		{"an object without a name", `{"msg":"Event",` + strings.Replace(full, `"name":"web",`, "", 1) + `}`, "no valid object", 1},
		{"a long line", `{"msg":"` + strings.Repeat("x", maxLine) + `"}`, "bytes", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			problems, passes := Problems(test.line + "\n")

			if passes != test.passes {
				t.Errorf("%d lines of passes, want %d", passes, test.passes)
			}
			if test.problem == "" && len(problems) > 0 || test.problem != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.problem)) {
				t.Errorf("problems %q, want %q", problems, test.problem)
			}
		})
	}
}
