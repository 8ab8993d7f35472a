// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

const (
	// settleTime is how long a status may wait for pods that are on their way. A
	// rollout changes counts and messages many times a second, and most of them
	// end before this.
	settleTime = time.Second
	// newRevisionTime is how long the status of a new revision, or of a repair, may wait for
	// its objects to be seen as healthy. Workloads without pods become ready within this
	// delay, which saves one status write.
	newRevisionTime = 100 * time.Millisecond
)

// Hold returns for how long a status may be held back that says no more than how far the
// rollout of a revision has come; zero for one that says anything else. A process that
// ends with such a status finds a release that the status does not know, and applies its
// objects again.
func Hold(written, next releasev1alpha1.ReleaseStatus) time.Duration {
	ready := meta.FindStatusCondition(next.Conditions, apimeta.ConditionReady)
	if next.LastHandledRequestedAt != written.LastHandledRequestedAt || next.LastHandledForceAt != written.LastHandledForceAt {
		return 0 // A user waits for the answer.
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
