// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"time"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// defaultRetries is the API's, for objects that were stored before the field had
// a default.
const defaultRetries = 3

// Timeout limits an operation on the release, and the time in which its workload must
// become healthy.
func Timeout(policy releasev1alpha1.ReleasePolicy) time.Duration {
	if policy.Timeout == nil {
		return helm.DefaultTimeout
	}
	return policy.Timeout.Duration
}

// MaxHistory is the number of revisions to keep: the number in the policy, and the revisions that
// remediation may need for a rollback.
func MaxHistory(policy releasev1alpha1.ReleasePolicy) int {
	kept := int64(helm.DefaultMaxHistory)
	if policy.MaxHistory != nil {
		kept = int64(*policy.MaxHistory)
	}
	if policy.WaitForReady && policy.Remediation != nil {
		kept = max(kept, retries(policy.Remediation)+2)
	}
	return int(kept)
}

// IgnoreRules converts the policy's ignored fields for the engine.
func IgnoreRules(policy releasev1alpha1.ReleasePolicy) []helm.IgnoreRule {
	if policy.Drift == nil {
		return nil
	}
	var rules []helm.IgnoreRule
	for _, ignored := range policy.Drift.Ignore {
		rules = append(rules, helm.IgnoreRule{Kind: ignored.Kind, Name: ignored.Name, Paths: ignored.Paths})
	}
	return rules
}

// driftMode is the drift mode of the policy.
func driftMode(policy releasev1alpha1.ReleasePolicy) releasev1alpha1.DriftMode {
	if policy.Drift == nil {
		return releasev1alpha1.DriftCorrect
	}
	return cmp.Or(policy.Drift.Mode, releasev1alpha1.DriftCorrect)
}

// removesForeign reports whether fields that other clients add are drift.
func removesForeign(policy releasev1alpha1.ReleasePolicy) bool {
	return policy.Drift != nil && policy.Drift.ForeignFields == releasev1alpha1.ForeignFieldsRemove
}

// retries is how often a failed attempt is retried before remediation.
func retries(remediation *releasev1alpha1.Remediation) int64 {
	if remediation.Retries == nil {
		return defaultRetries
	}
	return int64(*remediation.Retries)
}
