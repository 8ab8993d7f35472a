// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/helm"
)

// report writes the status at the end of a pass without errors. It reports whether the
// status describes the current generation, because nothing held the pass.
func report(s *subject, f Facts, found assessment) bool {
	summary := Summarize(found.plan.Observed.Health)
	// Redacted, because an admission webhook may quote values of the chart in its
	// message.
	summary.Message = f.Desired.Redactor.Text(summary.Message)
	if found.plan.Observed.BaselineKnown || found.plan.Observed.StillDeployed != nil {
		s.status.Replicas, s.status.ReadyReplicas, s.status.Selector = summary.Replicas, summary.ReadyReplicas, summary.Selector
	}
	stalled := slices.ContainsFunc(found.blockers, func(b Blocker) bool { return b.Stalled })
	if found.plan.Withheld || found.plan.Decision.Action == helm.ActionWait || stalled {
		reportHeld(s, f, found, summary)
		if meta.IsStatusConditionTrue(s.status.Conditions, apimeta.ConditionReady) {
			reportUnobserved(s, f, found.plan)
		}
		return false
	}
	s.status.ObservedGeneration = f.Generation
	if late := found.health.late; late != "" {
		s.reportNotDeployed(f, releasev1alpha1.ReasonHealthTimeout, late)
		if found.willRetry() {
			s.Conditions().MarkReconciling(releasev1alpha1.ReasonHealthTimeout, late)
		} else {
			s.Conditions().MarkStalled(releasev1alpha1.ReasonHealthTimeout, late)
		}
		return true
	}
	s.removeFailed()
	reason, message := deployedState(*s.status.DeployedRelease)
	s.Conditions().Set(releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, reason, message)
	reportHealth(s, f, found, summary)
	return true
}

// deployedState is the reason and message of Deployed while it is True.
func deployedState(deployed releasev1alpha1.DeployedRelease) (reason, message string) {
	reason = releasev1alpha1.ReasonUpgradeSucceeded
	if deployed.Revision == 1 {
		reason = releasev1alpha1.ReasonInstallSucceeded
	}
	return reason, fmt.Sprintf("Revision %d of chart %s %s is deployed", deployed.Revision, deployed.Chart, deployed.ChartVersion)
}

func reportHealth(s *subject, f Facts, found assessment, summary Summary) {
	missing := missingObjects(f, found.plan)
	if missing == "" && summary.Healthy {
		s.status.LastGoodRevision = s.status.DeployedRelease.Revision
		forgetFailures(s.status)
	}
	switch {
	case missing != "":
		s.Conditions().MarkStalled(apimeta.ReasonUnhealthy, missing)
	case found.contested != "":
		s.Conditions().MarkReconciling(apimeta.ReasonRepeatedDrift, found.contested)
	case summary.Healthy:
		s.Conditions().MarkReady(apimeta.ReasonHealthy, fmt.Sprintf("Revision %d is deployed and healthy", s.status.DeployedRelease.Revision))
	case summary.Failed:
		s.Conditions().MarkStalled(apimeta.ReasonUnhealthy, summary.Message)
	case len(found.plan.Observed.Unobserved) > 0:
		reportUnobserved(s, f, found.plan)
	default:
		s.Conditions().MarkReconciling(apimeta.ReasonProgressing, summary.Message)
	}
}

// reportUnobserved reports the kinds whose objects cannot be watched. Ready is then unknown.
func reportUnobserved(s *subject, f Facts, plan Plan) {
	var causes []string
	for _, kind := range plan.Observed.Unobserved {
		causes = append(causes, fmt.Sprintf("The objects of kind %s cannot be watched: %v", kind.Kind, kind.Err))
	}
	if len(causes) == 0 {
		return
	}
	message := f.Desired.Redactor.Text(strings.Join(causes, "; ")) + "; the other objects are observed and corrected"
	s.Conditions().MarkReconciling(apimeta.ReasonObserveFailed, message)
	s.Conditions().Set(apimeta.ConditionReady, metav1.ConditionUnknown, apimeta.ReasonObserveFailed, message)
}

// reportHeld reports what a change waits for. The deployed release stays deployed
// meanwhile.
func reportHeld(s *subject, f Facts, found assessment, summary Summary) {
	newest := isDeployedNewest(found.plan, *s.status)
	if newest && summary.Healthy && missingObjects(f, found.plan) == "" {
		// The held change may fail later, and is then rolled back to this revision.
		s.status.LastGoodRevision = s.status.DeployedRelease.Revision
	}
	if (newest || found.plan.Observed.StillDeployed != nil) && len(found.plan.Observed.Drifts) == 0 {
		s.endRepairFailure(f)
	}
	if len(found.blockers) == 0 {
		return
	}
	first := found.blockers[0]
	var messages []string
	for _, b := range found.blockers {
		messages = append(messages, b.Message)
		if b.Stalled && !first.Stalled {
			first = b // A blocker that needs a user comes first.
		}
	}
	message := strings.Join(messages, "; ")
	if s.status.DeployedRelease == nil {
		s.reportNotDeployed(f, first.Reason, message)
	}
	if first.Stalled {
		s.Conditions().MarkStalled(first.Reason, message)
		s.status.ObservedGeneration = f.Generation
		return
	}
	s.Conditions().MarkReconciling(first.Reason, message)
}

// isDeployedNewest reports whether the newest revision is the one in the status, so that
// the observed health belongs to it.
func isDeployedNewest(plan Plan, s releasev1alpha1.ReleaseStatus) bool {
	deployed, record := s.DeployedRelease, plan.Observed.Record
	return deployed != nil && record != nil && int64(record.Revision) == deployed.Revision && plan.Observed.BaselineKnown
}

// reportFailure writes an error into the status. It returns the error for the queue,
// which is terminal if a retry cannot succeed.
func (l *Lifecycle) reportFailure(ctx context.Context, s *subject, f Facts, plan Plan, err error) error {
	if isNotSynced(err) {
		return err
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err // The object itself is about to be deleted.
	}
	failure := classify(err, failureState{
		Action: plan.Decision.Action, Transient: f.Desired.Transient,
		Deployed: s.status.DeployedRelease != nil, Reported: meta.FindStatusCondition(s.status.Conditions, apimeta.ConditionReady) != nil,
	})
	failure.CausedByObject = isCausedByObject(err)
	if f.Capabilities = ""; helm.DependsOnCapabilities(err) {
		f.Capabilities = l.engine.Capabilities(f.release())
	}
	err = f.Desired.Redactor.Error(err)
	if plan.Decision.Action == helm.ActionRollback {
		err = s.besideFailedChange(err)
	}
	if failure.Counts {
		recordFailure(s.status, f, plan, failure, l.failedRevision(ctx, f, plan))
		if plan.GivenUp && rollsOut(plan.Decision.Action) {
			// The change stays given up. The next pass reports that, and when it is tried again.
			s.Conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, failure.Reason, err.Error())
			s.setFailedAction(historyActions[plan.Decision.Action])
			return err
		}
		if failure.Terminal && plan.Decision.Action != helm.ActionRollback &&
			chooseStrategy(f.Desired.Policy.Remediation, currentFailures(f, *s.status), lastGood(plan, *s.status)) == rollBack {
			failure.Terminal = false // A rollback is still possible.
		}
		s.setFailed(f, plan.Decision.Action, failure, err.Error())
	}
	switch {
	case failure.Terminal:
		s.Conditions().MarkStalled(failure.Reason, err.Error())
		answerForce(s.status, f, plan.Decision.Action)
		if !plan.Withheld {
			s.status.ObservedGeneration = f.Generation
		}
		s.RequeueAfter(l.noteRefusal(f, plan, *s.status, Blocker{Reason: failure.Reason, Message: err.Error(), Stalled: true}, err))
		if wait, _ := waitFor(currentFailures(f, *s.status), f.Now); wait > 0 {
			s.RequeueAfter(wait)
		}
		return controller.Terminal(err)
	case failure.Reports:
		s.Conditions().MarkReconciling(failure.Reason, err.Error())
	}
	return err
}

// setFailed sets Failed and Deployed after a failed attempt or repair. A failed repair
// does not overwrite a failed attempt, because no repair can undo that failure.
func (s *subject) setFailed(f Facts, action helm.Action, failure failure, message string) {
	if isRepair(action) {
		if s.attemptFailed() {
			return
		}
		s.Conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, failure.Reason, message)
		s.setFailedAction(releasev1alpha1.HistoryRepair)
		if failure.Terminal && !f.Desired.DeployedIsAnyRevision {
			s.setDeployed(f, metav1.ConditionFalse, failure.Reason, message)
		}
		return
	}
	reason := failure.Reason
	if changed, _ := s.failedChange(); action == helm.ActionRollback && changed != "" {
		reason = changed
	}
	s.Conditions().Set(releasev1alpha1.ConditionFailed, metav1.ConditionTrue, reason, message)
	s.setFailedAction(historyActions[action])
	if failure.Terminal || action == helm.ActionInstall || action == helm.ActionUpgrade {
		s.reportNotDeployed(f, failure.Reason, message)
	}
}

// reportNotDeployed reports that the desired revision is not deployed.
func (s *subject) reportNotDeployed(f Facts, reason, message string) {
	deployed := s.status.DeployedRelease
	switch {
	case !f.Desired.DeployedIsAnyRevision:
		s.Conditions().Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, reason, message)
	case deployed != nil:
		reason, message = deployedState(*deployed)
		s.setDeployed(f, metav1.ConditionTrue, reason, message)
	default:
		s.Conditions().Remove(releasev1alpha1.ConditionDeployed)
	}
}

// reportRunning reports the revision of another operator that runs while its release is not taken over,
// because the takeover is held or has failed.
func (l *Lifecycle) reportRunning(ctx context.Context, s *subject, f Facts) {
	if !f.Desired.DeployedIsAnyRevision || s.status.DeployedRelease != nil {
		return
	}
	running, objects, err := l.engine.Running(ctx, f.Desired.Release)
	if err != nil {
		klog.FromContext(ctx).Error(f.Desired.Redactor.Error(err), "Cannot look at the release of another operator, which is not taken over yet")
	}
	if running == nil {
		return
	}
	reason, message := deployedState(releasev1alpha1.DeployedRelease{
		Revision: int64(running.Revision), Chart: running.Chart, ChartVersion: running.ChartVersion,
	})
	s.setDeployed(f, metav1.ConditionTrue, reason, message)
	summary := Summarize(objects)
	s.status.Replicas, s.status.ReadyReplicas, s.status.Selector = summary.Replicas, summary.ReadyReplicas, summary.Selector
}

// attemptFailed reports whether Failed is about an install, an upgrade, a rollback or the
// health of a revision, and not about a repair.
func (s *subject) attemptFailed() bool {
	failed := meta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionFailed)
	if failed == nil {
		return false
	}
	if action := storedFailures(*s.status).Action; action != "" {
		return action != releasev1alpha1.HistoryRepair
	}
	// The status was written before the action was recorded, or nothing was attempted.
	if failed.Reason == releasev1alpha1.ReasonHealthTimeout {
		return true
	}
	for _, entry := range s.status.History {
		if entry.Outcome == releasev1alpha1.HistoryFailed {
			return entry.Action != releasev1alpha1.HistoryRepair
		}
	}
	return failed.Reason != releasev1alpha1.ReasonRepairFailed
}

// setFailedAction records the action that Failed is about; empty for an error before any
// action.
func (s *subject) setFailedAction(action releasev1alpha1.HistoryAction) {
	if s.status.Failures == nil {
		if action == "" {
			return
		}
		s.status.Failures = &releasev1alpha1.FailureCounts{}
	}
	s.status.Failures.Action = action
	if action != releasev1alpha1.HistoryRollback {
		s.status.Failures.Change = ""
	}
}

// removeFailed removes Failed and its action.
func (s *subject) removeFailed() {
	s.Conditions().Remove(releasev1alpha1.ConditionFailed)
	s.setFailedAction("")
}

// endRepairFailure removes a reported repair failure. It also does so while a change is
// held, because the pass then does not report the release otherwise.
func (s *subject) endRepairFailure(f Facts) {
	conditions := s.status.Conditions
	failed, deployed := meta.FindStatusCondition(conditions, releasev1alpha1.ConditionFailed), meta.FindStatusCondition(conditions, releasev1alpha1.ConditionDeployed)
	if failed == nil || s.attemptFailed() {
		return
	}
	if deployed != nil && deployed.Status == metav1.ConditionFalse && deployed.Reason == failed.Reason {
		reason, message := deployedState(*s.status.DeployedRelease)
		s.setDeployed(f, metav1.ConditionTrue, reason, message)
	}
	s.removeFailed()
}

// setDeployed sets Deployed for the deployed release. The condition keeps its observed generation,
// which is the generation of the deployed release; see lastGeneration.
func (s *subject) setDeployed(f Facts, is metav1.ConditionStatus, reason, message string) {
	generation := f.Generation
	if last := meta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionDeployed); last != nil {
		generation = last.ObservedGeneration
	}
	status.For(&s.status.Conditions, generation, f.Now).Set(releasev1alpha1.ConditionDeployed, is, reason, message)
}

// failedRevision is the revision of the record that a failed attempt left; 0 if it left
// none.
func (l *Lifecycle) failedRevision(ctx context.Context, f Facts, plan Plan) int64 {
	if _, attempted := historyActions[plan.Decision.Action]; !attempted {
		return 0
	}
	// Without a baseline, the engine reads only the records, and waits for no cache of
	// objects.
	observed, err := l.engine.Observe(ctx, f.release(), helm.Baseline{})
	record, decision := observed.Record, plan.Decision
	if err != nil || record == nil || !record.Own || record.Status == deployedStatus || record.Unhealthy || isRepair(decision.Action) {
		return 0
	}
	made := record.Inputs == f.Digest
	if decision.Action == helm.ActionRollback {
		made = record.RolledBackTo == decision.To
	}
	if !made {
		return 0 // An earlier attempt left the record.
	}
	return int64(record.Revision)
}

// isError reports whether err wraps an error of the type.
func isError[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
