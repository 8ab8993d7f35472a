// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestHookConditions(t *testing.T) {
	tests := map[string]struct {
		condition func(*unstructured.Unstructured) (bool, error)
		manifest  string
		done      bool
		failure   string
	}{
		"Job without a status": {jobEnded, "{}", false, ""},
		"Job at work":          {jobEnded, "{status: {active: 1}}", false, ""},
		"Job that was suspended": {
			jobEnded, `{status: {conditions: [{type: Suspended, status: "True"}, {type: Complete, status: "False"}]}}`, false, "",
		},
		"Job that has completed": {
			jobEnded, `{status: {conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]}}`, true, "",
		},
		"Job that has failed": {
			jobEnded, `{status: {conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: tried twice}]}}`, false,
			"job failed: BackoffLimitExceeded: tried twice",
		},
		"Job that cannot be read": {jobEnded, "{status: {conditions: none}}", false, "*"},
		"Pod that waits":          {podEnded, "{status: {phase: Pending}}", false, ""},
		"Pod that runs":           {podEnded, "{status: {phase: Running}}", false, ""},
		"Pod without a status":    {podEnded, "{}", false, ""},
		"Pod that has succeeded":  {podEnded, "{status: {phase: Succeeded}}", true, ""},
		"Pod that has failed":     {podEnded, "{status: {phase: Failed, message: evicted}}", false, "pod failed: evicted"},
		"Pod that cannot be read": {podEnded, "{status: {phase: 1}}", false, "*"},
		"CRD that is not established": {
			isCurrent, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}}`, false, "",
		},
		"CRD that is established": {
			isCurrent, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, status: {conditions: [{type: Established, status: "True"}]}}`, true, "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.manifest[1] != 'a' {
				tc.manifest = "{apiVersion: v1, kind: Any, " + tc.manifest[1:]
			}
			done, err := tc.condition(object(t, tc.manifest))
			if done != tc.done {
				t.Errorf("done = %t, want %t", done, tc.done)
			}
			switch {
			case tc.failure == "" && err != nil, tc.failure == "*" && err == nil:
				t.Errorf("error is %v, want %q", err, tc.failure)
			case tc.failure != "" && tc.failure != "*" && (err == nil || err.Error() != tc.failure):
				t.Errorf("error is %v, want %q", err, tc.failure)
			}
		})
	}
}
