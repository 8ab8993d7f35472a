// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sample is a minimal object with a release, for tests of pure functions.
type sample struct {
	Generation int64
	suspended  bool
	Status     releasev1alpha1.ReleaseStatus
}

func newSample(change ...func(*sample)) *sample {
	s := &sample{Status: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}}
	for _, c := range change {
		c(s)
	}
	return s
}

// condition sets a condition of the status.
func condition(conditionType string, is metav1.ConditionStatus, reason string) func(*sample) {
	return func(s *sample) {
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: is, Reason: reason, Message: reason + " message",
			ObservedGeneration: s.Generation, LastTransitionTime: metav1.NewTime(began),
		})
	}
}
