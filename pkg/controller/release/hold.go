// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

const (
	// settleTime is how long a status write may be delayed while pods start. A rollout
	// changes counts and messages many times a second, and most rollouts end within this
	// delay.
	settleTime = time.Second
	// newRevisionTime is how long the status write of a new revision or of a repair may
	// be delayed until its objects are observed as healthy. Workloads without pods become
	// ready within this delay, which saves one status write.
	newRevisionTime = 100 * time.Millisecond
	// contestTime is how long a status write may be delayed that only records the corrections of a
	// contest. Without these records, the next process corrects the objects once more.
	contestTime = time.Minute
	// sourcesTime is how long a status write may be delayed that only records other versions of the
	// same sources. Another client may write a Secret repeatedly without changing its values.
	sourcesTime = 10 * time.Minute
)

// hold returns how long the write of a status may be delayed that only reports the
// progress of a rollout. It returns zero for all other statuses. If the process ends
// before the write, the next process finds an unrecorded revision, and applies its
// objects again.
func hold(written, next releasev1alpha1.ReleaseStatus) time.Duration {
	ready := meta.FindStatusCondition(next.Conditions, apimeta.ConditionReady)
	if next.LastHandledRequestedAt != written.LastHandledRequestedAt || next.LastHandledForceAt != written.LastHandledForceAt {
		return 0 // A user waits for the result.
	}
	if onlyCorrects(written, next) {
		return contestTime
	}
	if sameBut := next; next.Sources != written.Sources {
		sameBut.Sources = written.Sources
		if apiequality.Semantic.DeepEqual(written, sameBut) {
			return sourcesTime
		}
	}
	if ready == nil || ready.Reason != apimeta.ReasonProgressing || next.DeployedRelease == nil ||
		meta.FindStatusCondition(written.Conditions, releasev1alpha1.ConditionFailed) != nil {
		return 0
	}
	if meta.FindStatusCondition(written.Conditions, releasev1alpha1.ConditionDrifted) != nil ||
		written.DeployedRelease == nil || *written.DeployedRelease != *next.DeployedRelease ||
		written.ObservedGeneration != next.ObservedGeneration {
		return newRevisionTime
	}
	return settleTime
}

// onlyCorrects reports whether two statuses report the same contest, and differ only in what the
// operator wrote to the objects.
func onlyCorrects(written, next releasev1alpha1.ReleaseStatus) bool {
	if !isContested(written) || !isContested(next) || len(written.Inventory) != len(next.Inventory) {
		return false
	}
	same := next
	same.Inventory = slices.Clone(next.Inventory)
	for i := range same.Inventory {
		same.Inventory[i].Digest = written.Inventory[i].Digest
	}
	return apiequality.Semantic.DeepEqual(written, same)
}
