// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

const (
	// busyRetry is when to look again at a release that another client is changing,
	// although the end of that change has an event.
	busyRetry = 10 * time.Second
	// terminatingRetry is when to look again at an object whose namespace is being
	// deleted: it should be gone by then.
	terminatingRetry = 30 * time.Second
	// retrySoon is when to go on with a revision whose time was up when the objects were
	// applied again.
	retrySoon = time.Second
)

// announce makes visible, before the release is changed, what has to be: drift from the
// moment that it is observed, and a revision that was not healthy in time before the next
// one is made, so that their number is bounded also when the process ends in between.
func (l *Lifecycle) announce(ctx context.Context, s *subject, f Facts, found look) error {
	if reason, message := driftOf(s, found.plan, found.plan.Decision); reason != "" {
		s.Conditions().Set(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, reason, message)
		s.catchUp(reason, message)
		if err := s.Commit(ctx); err != nil {
			return err
		}
	}
	// A rollback ends the row of failures by what its record tells.
	if found.willRetry() && found.plan.Decision.Action != helm.ActionRollback {
		s.catchUp(apimeta.ReasonProgressing, found.health.late)
		if err := s.Commit(ctx); err != nil {
			return err
		}
	}
	if err := l.markHealth(ctx, s, f, found); err != nil {
		err = f.Desired.Redactor.Error(err)
		s.Conditions().MarkReconciling(releasev1alpha1.ReasonHealthTimeout, err.Error())
		return err
	}
	return nil
}

// catchUp has Ready speak of the generation that the status does, where the status that
// would have said so was held back.
func (s *subject) catchUp(reason, message string) {
	ready := meta.FindStatusCondition(s.status.Conditions, apimeta.ConditionReady)
	if ready == nil || ready.ObservedGeneration < s.status.ObservedGeneration {
		s.Conditions().MarkReconciling(reason, message)
	}
}

// markHealth writes into the release's history what judgeHealth found: a revision that was
// not healthy in time is failed, until it is healthy after all.
func (l *Lifecycle) markHealth(ctx context.Context, s *subject, f Facts, found look) error {
	record, late := found.plan.Observed.Record, found.health.late
	if !found.health.judged || found.plan.Suspended || record.Unhealthy == (late != "") {
		return nil
	}
	release, baseline := f.Desired.withoutValues(), Baseline(*s.status, f.Desired.Policy)
	if record.Unhealthy {
		return l.engine.MarkDeployed(ctx, release, baseline, record.Revision, "Not counted as failed any more")
	}
	return l.engine.MarkFailed(ctx, release, baseline, record.Revision, late)
}

// withoutValues is the release as far as the engine needs it to keep what is deployed.
func (d Desired) withoutValues() helm.Release {
	release := d.Release
	release.Values, release.Adopt = nil, false
	return release
}

// act does what was decided, and writes down what came of it. It reports whether it
// changed the release. A release that another client is changing holds the plan.
func (l *Lifecycle) act(ctx context.Context, s *subject, f Facts, found *look) (acted bool, _ error) {
	decision := found.plan.Decision
	if decision.Action == helm.ActionNone {
		return false, nil
	}
	release := f.Desired.Release
	if !f.Desired.Known {
		release = f.Desired.withoutValues() // What is deployed is repaired all the same.
	}
	deployed, err := l.engine.Execute(ctx, release, decision, Baseline(*s.status, f.Desired.Policy))
	if decision.Action == helm.ActionRefuse {
		err = fmt.Errorf("%w: %s", err, f.Desired.AdoptHint)
	}
	if err != nil && deployed != nil {
		s.status.Inventory = inventoryOf(deployed) // Some objects could be repaired.
	}
	var busy *helm.BusyError
	if errors.As(err, &busy) {
		s.LookAgain(max(busy.RetryAfter, busyRetry))
		found.blockers = append(found.blockers, Blocker{Reason: releasev1alpha1.ReasonReleaseBusy, Message: busy.Error()})
		found.plan.Withheld = true
		return false, nil
	}
	if err != nil {
		// The attempt may have left a record.
		baseline := helm.Baseline{Revisions: Baseline(*s.status, f.Desired.Policy).Revisions}
		if observed, err := l.engine.Observe(ctx, f.Key, baseline); err == nil {
			s.status.Revisions = revisionsOf(observed)
		}
		return false, err
	}
	l.refusals.forget(f.Key)
	recordDeployed(s, f, found.plan, deployed)
	return true, nil
}

// recordDeployed writes down what a success left, and why it came about.
func recordDeployed(s *subject, f Facts, plan Plan, deployed *helm.Deployed) {
	answerForce(s.status, f, plan.Decision.Action)
	decision := completedBy(plan, *s.status, plan.Decision)
	at := metav1.NewTime(f.Now).Rfc3339Copy()
	s.status.LastUpgradeReason = reasonFor(f, plan, *s.status, decision)
	s.status.LastUpgradeAt = &at
	if f.Desired.Changed != nil {
		f.Desired.Changed(Change{
			Decision: decision, Deployed: deployed,
			Desired: f.Desired.Known && !plan.Withheld && !plan.Next.RolledBack && decision.Action != helm.ActionRollback,
		})
	}
	s.status.DeployedRelease = &releasev1alpha1.DeployedRelease{
		Name:         f.Desired.Release.Name,
		Revision:     int64(deployed.Revision),
		Chart:        deployed.Chart,
		ChartVersion: deployed.ChartVersion,
		AppVersion:   deployed.AppVersion,
	}
	s.status.AppliedManifestHash = deployed.ManifestHash
	s.status.Inventory = inventoryOf(deployed)
	recordSuccess(s.status, f, decision.Action)
	switch decision.Action {
	case helm.ActionInstall, helm.ActionUpgrade:
		if !f.Desired.Policy.WaitForReady {
			forgetFailures(s.status)
		}
	case helm.ActionRollback:
		// It is the good one again, and the older one may go with the history.
		s.status.LastGoodRevision = s.status.DeployedRelease.Revision
	case helm.ActionNone, helm.ActionReapply, helm.ActionRepair, helm.ActionWait, helm.ActionRefuse:
	}
}
