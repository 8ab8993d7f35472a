// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// contestRemedy says how to end a contest about an object.
const contestRemedy = "leave the fields out of the chart, or name them in drift.ignore: see Repeated drift in docs/drift.md"

// driftedObject identifies an object of the release of a custom resource. Each generation of the
// custom resource starts afresh, because a user may have ended the contest.
type driftedObject struct {
	owner      cache.ObjectName
	generation int64
	object     helm.Identity
}

// drifted identifies an object of the release in the memory of corrections.
func (f Facts) drifted(object helm.Identity) driftedObject {
	return driftedObject{f.Key, f.Generation, object}
}

// holdContested removes from the plan the corrections that wait, because another client changes the
// objects again after each correction. Other objects are corrected at once.
func (l *Lifecycle) holdContested(ctx context.Context, s *subject, f Facts, plan Plan) Plan {
	l.describeContests(ctx, s, f, plan)
	plan.Contested = true
	plan.Decision.Drifts = slices.DeleteFunc(slices.Clone(plan.Decision.Drifts), func(drift helm.Drift) bool {
		contest := l.corrections.Against(f.drifted(drift.Object.Identity()), plan.Observed.Writers[drift.Object.Identity()], f.Now)
		if contest.Wait > 0 {
			s.RequeueAfter(contest.Wait)
			return true
		}
		plan.Contested = plan.Contested && contest.Begun
		return false
	})
	if len(plan.Decision.Drifts) == 0 {
		plan.Decision = helm.Decision{Action: helm.ActionNone, RolledBack: plan.Decision.RolledBack}
	}
	return plan
}

// describeContests finds out who changes which fields of the objects whose contest has begun. If the
// engine does not know, the text names the objects alone.
func (l *Lifecycle) describeContests(ctx context.Context, s *subject, f Facts, plan Plan) {
	var unknown []helm.Drift
	for _, drift := range plan.Decision.Drifts {
		object, writer := f.drifted(drift.Object.Identity()), plan.Observed.Writers[drift.Object.Identity()]
		if entry := inventoryEntry(s.status.Inventory, drift.Object.Identity()); entry != nil && entry.Contested {
			l.corrections.Resume(object, writer, f.Now)
		}
		if contest := l.corrections.Against(object, writer, f.Now); contest.Begun && contest.Text == "" {
			unknown = append(unknown, drift)
		}
	}
	if len(unknown) == 0 {
		return
	}
	found, err := l.engine.Explain(ctx, f.Desired.withoutValues(), Baseline(*s.status, f.Desired.Policy, f.Desired.Release.Scope), unknown)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not find out which fields another client changes again and again")
		for _, drift := range unknown {
			found = append(found, helm.Explanation{Drift: drift, Managers: []string{"unknown"}})
		}
	}
	for _, explanation := range found {
		object := explanation.Drift.Object
		text := controller.ContestText(object.Kind, object.Name, explanation.Fields, explanation.Managers, contestRemedy)
		l.corrections.Describe(f.drifted(object.Identity()), plan.Observed.Writers[object.Identity()], f.Desired.Redactor.Text(text), f.Now)
	}
}

// maxContests limits how many contests a message names.
const maxContests = 10

// reportDrift sets or removes the condition Drifted after the corrections of a pass. It returns the
// contests in one line.
func (l *Lifecycle) reportDrift(s *subject, f Facts, plan Plan) (contested string) {
	var lines []string
	for i := range s.status.Inventory {
		entry := &s.status.Inventory[i]
		texts, ends := l.corrections.Contests(f.drifted(referenceOf(*entry).Identity()), f.Now)
		entry.Contested = len(texts) > 0
		if len(texts) > 0 {
			lines = append(lines, texts...)
			s.RequeueAfter(ends + 1)
		}
	}
	if more := len(lines) - maxContests; more > 0 {
		lines = append(lines[:maxContests], fmt.Sprintf("and %d more", more))
	}
	contested = strings.Join(lines, "; ")
	switch {
	case plan.Suspended:
		return ""
	case contested != "":
		s.Conditions().Set(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, apimeta.ReasonRepeatedDrift, contested)
	case len(plan.Observed.Drifts) == 0:
		s.Conditions().Remove(releasev1alpha1.ConditionDrifted)
	}
	return contested
}

// theRelease stands for the release itself in the memory of corrections.
func theRelease(f Facts) helm.Identity {
	return helm.ObjectReference{Kind: "Release", Namespace: f.release().Namespace, Name: f.release().Name}.Identity()
}

// isReleaseChange reports whether a decision makes a revision because another client changed or
// uninstalled the release.
func isReleaseChange(s releasev1alpha1.ReleaseStatus, decision helm.Decision) bool {
	return rollsOut(decision.Action) &&
		(decision.Cause == helm.CauseReleaseChanged || decision.Cause == helm.CauseNotInstalled && s.DeployedRelease != nil)
}

// gateContested holds a revision that corrects a change of the release, if another client changes
// the release again after each correction.
func (l *Lifecycle) gateContested(_ context.Context, in GateInput) Verdict {
	if !isReleaseChange(*in.Status, in.Plan.Next) {
		return Verdict{}
	}
	contest := l.corrections.Against(in.drifted(theRelease(in.Facts)), 0, in.Now)
	if contest.Wait <= 0 {
		return Verdict{}
	}
	text := controller.ContestText("Release", in.release().Name, []string{"its revision"}, nil, "stop that client, such as a job that runs helm")
	return Verdict{Blockers: []Blocker{{Reason: apimeta.ReasonRepeatedDrift, Message: text}}, RequeueAfter: contest.Wait}
}
