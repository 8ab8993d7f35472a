// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

const (
	// settleTime is how long a status may wait for pods that are on their way. A
	// rollout changes counts and messages many times a second, and most of them
	// end before this.
	settleTime = time.Second
	// newRevisionTime is how long the status of a new revision, or of a repair, may
	// wait for its objects to be seen as healthy. Those without pods are within this, which
	// spares the status that says that they are not yet.
	newRevisionTime = 100 * time.Millisecond
)

// unwritten holds statuses back while all that they would tell is how far a
// rollout has come. They live in memory meanwhile. A process that dies with one
// finds a release that the status does not know, and applies its objects again.
type unwritten struct {
	mu   sync.Mutex
	held map[cache.ObjectName]heldStatus
}

type heldStatus struct {
	uid    types.UID
	since  time.Time
	status v1alpha1.DemoAppStatus
}

// resume lets a pass go on from the status that an earlier one held back. The
// conditions start from the written ones: one that went and came back in the
// meantime has not changed for anybody.
func (u *unwritten) resume(p *pass) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if held, ok := u.held[p.key()]; ok && held.uid == p.app.UID {
		written := p.app.Status.Conditions
		p.app.Status = *held.status.DeepCopy()
		p.app.Status.Conditions = written
		// The license server is not asked again by each pass.
		if licensed := meta.FindStatusCondition(held.status.Conditions, releasev1alpha1.ConditionLicensed); licensed != nil {
			meta.SetStatusCondition(&p.app.Status.Conditions, *licensed)
		}
	}
}

// hold keeps the pass's status back, unless it tells something that cannot
// wait, or an earlier one has waited long enough.
// It returns when to look again, and zero when the status is to be written. The
// time is now, and not when the pass began: applying objects takes a while, and
// how they do shows only then.
func (u *unwritten) hold(p *pass, now time.Time) time.Duration {
	wait := patience(p.observed.Status, p.app.Status)
	if wait == 0 || apiequality.Semantic.DeepEqual(p.observed.Status, p.app.Status) {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	held, ok := u.held[p.key()]
	if !ok || held.uid != p.app.UID {
		held = heldStatus{uid: p.app.UID, since: now}
	}
	if wait -= now.Sub(held.since); wait <= 0 {
		return 0
	}
	held.status = *p.app.Status.DeepCopy()
	if u.held == nil {
		u.held = map[cache.ObjectName]heldStatus{}
	}
	u.held[p.key()] = held
	return wait
}

func (u *unwritten) forget(key cache.ObjectName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.held, key)
}

// patience is how long a status may wait that says no more than how far the
// rollout of a revision has come; zero for one that says anything else.
func patience(written, next v1alpha1.DemoAppStatus) time.Duration {
	ready := meta.FindStatusCondition(next.Conditions, apimeta.ConditionReady)
	if next.LastHandledRequestedAt != written.LastHandledRequestedAt || next.LastHandledForceAt != written.LastHandledForceAt {
		return 0 // Somebody waits for the answer.
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
