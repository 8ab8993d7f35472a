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
)

// settleTime is how long a status may wait for pods that are on their way. A
// rollout changes counts and messages many times a second, and most of them end
// before this.
const settleTime = time.Second

// unwritten holds statuses back while all that they would tell is how far a
// rollout has come. They live in memory meanwhile: a process that dies loses a
// second of counts, and at the most repeats a repair.
type unwritten struct {
	mu   sync.Mutex
	held map[cache.ObjectName]heldStatus
}

type heldStatus struct {
	uid    types.UID
	since  time.Time
	status v1alpha1.DemoAppStatus
}

// resume lets a pass go on from the status that an earlier one held back.
func (u *unwritten) resume(p *pass) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if held, ok := u.held[p.key()]; ok && held.uid == p.app.UID {
		p.app.Status = *held.status.DeepCopy()
	}
}

// hold keeps the pass's status back, unless it tells something that cannot
// wait, or an earlier one has waited long enough.
func (u *unwritten) hold(p *pass) bool {
	if apiequality.Semantic.DeepEqual(p.observed.Status, p.app.Status) || !canWait(p.observed.Status, p.app.Status) {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	held, ok := u.held[p.key()]
	if !ok || held.uid != p.app.UID {
		held = heldStatus{uid: p.app.UID, since: p.now}
	}
	if p.now.Sub(held.since) >= settleTime {
		return false
	}
	held.status = *p.app.Status.DeepCopy()
	if u.held == nil {
		u.held = map[cache.ObjectName]heldStatus{}
	}
	u.held[p.key()] = held
	return true
}

func (u *unwritten) forget(key cache.ObjectName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.held, key)
}

// canWait reports whether a status says no more than how far the rollout of a
// revision has come that the written status already tells of.
func canWait(written, next v1alpha1.DemoAppStatus) bool {
	ready := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonProgressing &&
		written.DeployedRelease != nil && next.DeployedRelease != nil &&
		*written.DeployedRelease == *next.DeployedRelease &&
		written.ObservedGeneration == next.ObservedGeneration &&
		meta.FindStatusCondition(written.Conditions, v1alpha1.ConditionFailed) == nil
}
