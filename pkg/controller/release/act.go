// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

const (
	// busyRetry is the minimum delay before a release that another client is changing is
	// observed again. The end of that change also triggers an event.
	busyRetry = 10 * time.Second
	// retrySoon is the delay before the retry of a revision that exceeded its timeout
	// while its objects were applied again.
	retrySoon = time.Second
)

// announce writes the facts that must be visible before the release changes: changes of the release
// by other clients, and a revision that was not healthy in time. Failed revisions are recorded
// before the next one is made, so retries stay bounded even if the process ends in between. The
// repair of drifted objects does not wait for a write: act writes the status when they are as
// desired. Before anything else than the status is written, announce confirms the object, because
// the first list of the process may have an old version of it, or another object that had its name.
// A status write confirms it, too.
func (l *Lifecycle) announce(ctx context.Context, s *subject, f Facts, found assessment) error {
	if reason, message := driftOf(s, found.plan, found.plan.Decision); reason != "" && !found.plan.Contested {
		if !isContested(*s.status) {
			s.Conditions().Set(releasev1alpha1.ConditionDrifted, metav1.ConditionTrue, reason, message)
		}
		s.reportProgress(reason, message)
		if found.plan.Decision.Action != helm.ActionRepair {
			if err := s.Commit(ctx); err != nil {
				return err
			}
		}
	}
	// A rollback ends the series of failures by its own record.
	if found.willRetry() && found.plan.Decision.Action != helm.ActionRollback {
		s.reportProgress(apimeta.ReasonProgressing, found.health.late)
		if err := s.Commit(ctx); err != nil {
			return err
		}
	}
	if action := found.plan.Decision.Action; rollsOut(action) || isRepair(action) || found.marksHealth() {
		if err := s.Confirm(ctx); err != nil {
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

// reportProgress has Ready say that work goes on, where nothing has reported Ready yet.
func (s *subject) reportProgress(reason, message string) {
	if meta.FindStatusCondition(s.status.Conditions, apimeta.ConditionReady) == nil {
		s.Conditions().MarkReconciling(reason, message)
	}
}

// marksHealth reports whether the result of judgeHealth differs from the release's history.
func (a assessment) marksHealth() bool {
	return a.health.judged && !a.plan.Suspended && a.plan.Observed.Record.Unhealthy != (a.health.late != "")
}

// markHealth writes the result of judgeHealth into the release's history. A revision that
// was not healthy in time is marked failed until it becomes healthy.
func (l *Lifecycle) markHealth(ctx context.Context, s *subject, f Facts, found assessment) error {
	if !found.marksHealth() {
		return nil
	}
	record, late := found.plan.Observed.Record, found.health.late
	release, baseline := f.Desired.withoutValues(), Baseline(*s.status, f.Desired.Policy, f.Desired.Release.Scope)
	if record.Unhealthy {
		return l.engine.MarkDeployed(ctx, release, baseline, record.Revision, "No longer counted as failed")
	}
	return l.engine.MarkFailed(ctx, release, baseline, record.Revision, late)
}

// withoutValues returns the release with only what the engine needs to keep the deployed
// revision.
func (d Desired) withoutValues() helm.Release {
	release := d.Release
	release.Values, release.Adopt = nil, false
	return release
}

// act executes the decision and records the result. It reports whether it changed the
// release. If another client is changing the release, act holds the plan.
func (l *Lifecycle) act(ctx context.Context, s *subject, f Facts, found assessment) (_ assessment, acted bool, _ error) {
	decision := found.plan.Decision
	if decision.Action == helm.ActionNone {
		return found, false, nil
	}
	release := f.Desired.Release
	if !f.Desired.Known {
		release = f.Desired.withoutValues() // The deployed release is still repaired.
	}
	release.Consents = s.consents(f, found.plan)
	deployed, err := l.engine.Execute(ctx, release, decision, Baseline(*s.status, f.Desired.Policy, release.Scope))
	var conflict *helm.OwnershipConflictError
	if errors.As(err, &conflict) && conflict.OfRelease() {
		err = fmt.Errorf("%w: %s", err, f.Desired.AdoptHint)
	}
	if err != nil && deployed != nil {
		s.status.Inventory = inventoryOf(deployed) // Some objects were repaired.
	}
	var failed *helm.RevisionError
	if errors.As(err, &failed) {
		found.plan.Changes = failed.Changes
	}
	var busy *helm.BusyError
	if errors.As(err, &busy) {
		s.RequeueAfter(max(busy.RetryAfter, busyRetry))
		found.blockers = append(found.blockers, Blocker{Reason: releasev1alpha1.ReasonReleaseBusy, Message: busy.Error()})
		found.plan.Withheld = true
		return found, false, nil
	}
	if blocker, held := l.holdTakeover(s, f, found.plan, err); held {
		found.blockers = append(found.blockers, blocker)
		found.plan.Withheld = true
		return found, false, nil
	}
	if err != nil {
		// The attempt may have left a record.
		baseline := helm.Baseline{Revisions: Baseline(*s.status, f.Desired.Policy, release.Scope).Revisions}
		if observed, err := l.engine.Observe(ctx, f.release(), baseline); err == nil {
			s.status.Revisions = revisionsOf(observed)
		}
		return found, false, err
	}
	l.refusedRepairs.Forget(f.Key)
	if rollsOut(decision.Action) {
		l.refusedChanges.Forget(f.Key)
	}
	if decision.Action == helm.ActionRepair && deployed.Uncorrected {
		s.status.Inventory = inventoryOf(deployed)
		return found, true, nil
	}
	l.countCorrected(f, *s.status, found.plan)
	if decision.Action == helm.ActionRepair {
		_ = s.Commit(ctx) // After a failure, the write at the end of the pass reports the correction.
	}
	recordDeployed(s, f, found.plan, deployed)
	return found, true, nil
}

// keepDeployed corrects the drift of the deployed revision after a change has failed with a
// cause. The change comes first, because a user may have deleted what stood in its way. It
// does not report a failed correction, because the next pass repeats it. If a server could not
// do its work, the correction waits for the retry.
func (l *Lifecycle) keepDeployed(ctx context.Context, s *subject, f Facts, failed Plan, cause error) error {
	if !rollsOut(failed.Decision.Action) || isNotSynced(cause) || isError[*helm.UnavailableError](cause) {
		return nil
	}
	plan, err := l.observe(ctx, s, f)
	if err != nil {
		return err
	}
	if plan, err = l.applyDriftPolicy(ctx, s, f, plan.hold()); err != nil || plan.Decision.Action != helm.ActionRepair {
		return err
	}
	found := assessment{plan: plan}
	if err := l.announce(ctx, s, f, found); err != nil {
		return err
	}
	if _, _, err = l.act(ctx, s, f, found); err != nil {
		return fmt.Errorf("correct the drift of the deployed revision: %w", err)
	}
	if plan, err = l.observe(ctx, s, f); err == nil {
		l.reportDrift(s, f, plan)
	}
	return err
}

// reportAdjusted reports what a new revision left out of its manifest. A repair sends the same
// manifest again.
func reportAdjusted(s *subject, f Facts, action helm.Action, notes []string) {
	switch {
	case isRepair(action):
	case len(notes) == 0:
		s.Conditions().Remove(releasev1alpha1.ConditionAdjusted)
	default:
		s.Conditions().Set(releasev1alpha1.ConditionAdjusted, metav1.ConditionTrue, releasev1alpha1.ReasonManifestAdjusted,
			f.Desired.Redactor.Text(strings.Join(notes, "; ")))
	}
}

// recordDeployed records the result of a successful action and its reason.
func recordDeployed(s *subject, f Facts, plan Plan, deployed *helm.Deployed) {
	if plan.Contested {
		s.status.Inventory = inventoryOf(deployed)
		return
	}
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
	s.status.Sources = sourcesDigest(f.Desired.Sources)
	s.status.Inventory = inventoryOf(deployed)
	recordSuccess(s.status, f, decision.Action, deployed.Changes)
	reportAdjusted(s, f, decision.Action, deployed.Notes)
	switch decision.Action {
	case helm.ActionInstall, helm.ActionUpgrade:
		if !f.Desired.Policy.WaitForReady {
			forgetFailures(s.status)
		}
	case helm.ActionRollback:
		// The rollback is now the last good revision, because the older revision may be
		// pruned from the history.
		s.status.LastGoodRevision = s.status.DeployedRelease.Revision
		s.endRollbackFailure()
	case helm.ActionNone, helm.ActionReapply, helm.ActionRepair, helm.ActionWait, helm.ActionRefuse:
	}
}
