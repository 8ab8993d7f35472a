// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"strings"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
)

// turnTime is the time within which the children of an owner become healthy with a newer template.
// An owner that was not ready before holds its turn no longer than this.
const turnTime = 5 * time.Minute

// gates count the owners for which a newer template waits, for metrics.
var gates = []kind.Gate{
	{
		Name: "rollout", Condition: apimeta.ConditionUpgradeHeld, Status: metav1.ConditionTrue,
		Reasons: rollout.Reasons,
	},
	{
		Name: "change", Condition: apimeta.ConditionUpgradeHeld, Status: metav1.ConditionTrue,
		Reasons: []string{childv1alpha1.ReasonAwaitingChange},
	},
}

// standingOf returns the standing in the rollout that the conditions of an owner of this generation
// report. A change of the owner ends its turn.
func standingOf(generation int64, conditions []metav1.Condition) rollout.Standing {
	held := meta.FindStatusCondition(conditions, apimeta.ConditionUpgradeHeld)
	switch {
	case held == nil || held.ObservedGeneration != generation || held.Reason == childv1alpha1.ReasonAwaitingChange:
		return rollout.Settled
	case held.Status == metav1.ConditionTrue:
		return rollout.Due
	case held.Reason == childv1alpha1.ReasonRolloutFailed:
		return rollout.Failed
	default:
		return rollout.Active
	}
}

// judgeTurn returns the standing of an owner after a pass. It was the standing before the pass, healthy
// says whether the owner was ready before its turn, and left is the rest of turnTime. An owner that
// was not ready before says nothing about the template.
func judgeTurn(was rollout.Standing, healthy bool, verdict Verdict, left time.Duration) rollout.Standing {
	failed := verdict.Health == kstatus.FailedStatus && verdict.Reason == apimeta.ReasonUnhealthy || left <= 0
	switch {
	case was != rollout.Active && was != rollout.Failed, verdict.Health == kstatus.CurrentStatus, failed && !healthy:
		return rollout.Settled
	case failed:
		return rollout.Failed
	default:
		return was
	}
}

// reportRollout sets the condition UpgradeHeld, and the standing of the owner in the rollout. err is
// the error of the children.
func (p *pass) reportRollout(err error) {
	fleet, key, conditions := p.set.fleet, cache.MetaObjectToName(p.owner), status.For(p.conditions, p.owner.GetGeneration(), p.now)
	if fleet == nil {
		return
	}
	if p.asked && p.answer != rollout.Granted {
		reason, message := fleet.Held(key, "A newer pod template of "+strings.Join(p.queued, ", "), p.answer)
		conditions.Set(apimeta.ConditionUpgradeHeld, metav1.ConditionTrue, reason, message)
		return
	}
	if p.taken {
		reason := childv1alpha1.ReasonRolloutActive
		if !meta.IsStatusConditionTrue(*p.conditions, apimeta.ConditionReady) {
			reason = childv1alpha1.ReasonRolloutUnready
		}
		conditions.Set(apimeta.ConditionUpgradeHeld, metav1.ConditionFalse, reason, "The pods get a newer template of the operator")
	}
	var held metav1.Condition
	if found := meta.FindStatusCondition(*p.conditions, apimeta.ConditionUpgradeHeld); found != nil {
		held = *found
	}
	was, verdict := standingOf(p.owner.GetGeneration(), *p.conditions), Judge(p.state, err)
	left := held.LastTransitionTime.Add(turnTime).Sub(p.now)
	is := judgeTurn(was, held.Reason != childv1alpha1.ReasonRolloutUnready, verdict, left)
	fleet.Set(key, is)
	switch {
	case is == rollout.Active:
		p.retryAfter(left)
	case is == rollout.Failed && was != rollout.Failed:
		conditions.Set(apimeta.ConditionUpgradeHeld, metav1.ConditionFalse, childv1alpha1.ReasonRolloutFailed,
			"The pods do not become healthy with a newer template of the operator: "+verdict.Message)
	case is == rollout.Failed:
	case len(p.held) > 0:
		conditions.Set(apimeta.ConditionUpgradeHeld, metav1.ConditionTrue, childv1alpha1.ReasonAwaitingChange,
			"A newer template of the operator waits for a change of the spec that changes it: "+strings.Join(p.held, "; ")+
				"; annotation "+apimeta.AnnotationForceAt+" applies it now")
	default:
		conditions.Remove(apimeta.ConditionUpgradeHeld)
	}
}
