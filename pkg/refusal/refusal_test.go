// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal_test

import (
	"testing"

	"github.com/example/demoapp-controller/pkg/refusal"
)

func TestSubject(t *testing.T) {
	tests := map[string]struct {
		text    refusal.Text
		message string
		in      bool
		subject string
	}{
		"with a subject":     {refusal.QuotaExceeded, `pods "a" is forbidden: exceeded quota: small, requested: pods=1`, true, "small"},
		"without a subject":  {refusal.Immutable, "spec.selector: Invalid value: field is immutable", true, ""},
		"in the second form": {refusal.SecretMissing, "couldn't find key token in Secret shop/web", true, "web"},
		"of another kind":    {refusal.SecretMissing, `configmap "web" not found`, false, ""},
		"of another message": {refusal.QuotaExceeded, "exceeded the limit", false, ""},
		"of Kubernetes 1.37": {refusal.Immutable, "spec.volumeClaimTemplates: Invalid value: field is immutable", true, ""},
		"before Kubernetes 1.37": {
			refusal.Immutable, "spec: Forbidden: updates to statefulset spec for fields other than 'replicas'", true, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if in, subject := test.text.In(test.message), test.text.Subject(test.message); in != test.in || subject != test.subject {
				t.Errorf("found: %t, subject %q; want %t, %q", in, subject, test.in, test.subject)
			}
		})
	}
}
