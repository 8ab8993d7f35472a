// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// baselineOf is what the status remembers of the last success.
func baselineOf(app *v1alpha1.DemoApp) helm.Baseline {
	s := app.Status
	var baseline helm.Baseline
	for _, entry := range s.Revisions {
		baseline.Revisions = append(baseline.Revisions, helm.RevisionDigest{Revision: int(entry.Revision), Digest: entry.Digest})
	}
	if s.DeployedRelease == nil {
		return baseline
	}
	baseline.Revision = int(s.DeployedRelease.Revision)
	baseline.Inventory = make([]helm.InventoryEntry, 0, len(s.Inventory))
	baseline.RemoveForeign, baseline.Ignore = removesForeign(app.Spec), ignoreRules(app.Spec)
	if len(s.Revisions) == 0 && s.AppliedManifestHash != "" {
		// An operator of before there were digests wrote the status.
		baseline.Revisions = []helm.RevisionDigest{{Revision: baseline.Revision, Digest: helm.ManifestDigest(s.AppliedManifestHash)}}
	}
	for _, entry := range s.Inventory {
		baseline.Inventory = append(baseline.Inventory, helm.InventoryEntry{
			ObjectReference: helm.ObjectReference{
				APIVersion: entry.APIVersion, Kind: entry.Kind, Namespace: entry.Namespace, Name: entry.Name,
			},
			UID: entry.UID, Digest: entry.Digest,
		})
	}
	return baseline
}

// revisionsOf are the revisions whose records the operator relies on.
func revisionsOf(observed helm.Snapshot) []releasev1alpha1.RevisionDigest {
	var revisions []releasev1alpha1.RevisionDigest
	for _, entry := range observed.Revisions {
		revisions = append(revisions, releasev1alpha1.RevisionDigest{Revision: int64(entry.Revision), Digest: entry.Digest})
	}
	return revisions
}

func inventoryOf(deployed *helm.Deployed) []releasev1alpha1.InventoryEntry {
	inventory := make([]releasev1alpha1.InventoryEntry, 0, len(deployed.Inventory))
	for _, entry := range deployed.Inventory {
		inventory = append(inventory, releasev1alpha1.InventoryEntry{
			APIVersion: entry.APIVersion, Kind: entry.Kind, Namespace: entry.Namespace, Name: entry.Name,
			UID: entry.UID, Digest: entry.Digest,
		})
	}
	return inventory
}

// recordDeployed writes down what a success left, and why it came about.
func recordDeployed(p *pass, deployed *helm.Deployed, decision helm.Decision, chart *helm.Chart) {
	s := &p.app.Status
	p.answerForce(decision.Action)
	decision = completedBy(p, decision)
	at := metav1.NewTime(p.now).Rfc3339Copy()
	s.LastUpgradeReason = reasonFor(p, decision, chart)
	s.LastUpgradeAt = &at
	recordClaims(p, decision, deployed)
	s.DeployedRelease = &releasev1alpha1.DeployedRelease{
		Name:         p.app.Name,
		Revision:     int64(deployed.Revision),
		Chart:        deployed.Chart,
		ChartVersion: deployed.ChartVersion,
		AppVersion:   deployed.AppVersion,
	}
	s.AppliedManifestHash = deployed.ManifestHash
	s.Inventory = inventoryOf(deployed)
	recordSuccess(p, decision.Action)
	switch decision.Action {
	case helm.ActionInstall, helm.ActionUpgrade:
		if !p.app.Spec.WaitForReady {
			forgetFailures(s)
		}
	case helm.ActionRollback:
		// It is the good one again, and the older one may go with the history.
		s.LastGoodRevision = s.DeployedRelease.Revision
	case helm.ActionNone, helm.ActionReapply, helm.ActionRepair, helm.ActionWait, helm.ActionRefuse:
	}
}

// reasonFor is why the decision changes the release, as long as the status is as it was
// before.
func reasonFor(p *pass, decision helm.Decision, chart *helm.Chart) releasev1alpha1.UpgradeReason {
	s := p.app.Status
	failed := meta.FindStatusCondition(s.Conditions, releasev1alpha1.ConditionFailed)
	return release.ReasonFor(decision, release.Circumstances{
		Why:                   p.why,
		Deployed:              s.DeployedRelease != nil,
		SpecChanged:           s.ObservedGeneration != p.app.Generation,
		Unrecorded:            isUnrecorded(p),
		ChartChanged:          chartChanged(p, chart),
		CapabilitiesChanged:   capabilitiesChanged(p, chart),
		DependencyBecameReady: p.dependencyBecameReady,
		Failed:                failed != nil && failed.ObservedGeneration == p.app.Generation,
	})
}

// completedBy is what a decision brings to its end. Where the status could not be told
// of a revision, to apply its objects again completes what made it.
func completedBy(p *pass, decision helm.Decision) helm.Decision {
	if decision.Action != helm.ActionReapply || !isUnrecorded(p) {
		return decision
	}
	switch record := p.plan.Observed.Record; {
	case record.RolledBackTo != 0:
		decision.Action, decision.To = helm.ActionRollback, record.RolledBackTo
	case record.Revision == 1:
		decision.Action = helm.ActionInstall
	default:
		decision.Action = helm.ActionUpgrade
	}
	return decision
}

// chartChanged reports whether the newest revision was made from another chart
// than the operator has now, or than the one that the status knows of.
func chartChanged(p *pass, chart *helm.Chart) bool {
	record, known := p.plan.Observed.Record, p.app.Status.DeployedRelease
	if record == nil || !record.Own {
		return false
	}
	return !record.MadeFrom(chart) || isUnrecorded(p) && known != nil && known.ChartVersion != chart.Version()
}

// isUnrecorded reports whether an own revision is the newest that the status does not
// know of yet: the process ended in between, or the revision is an attempt that failed.
func isUnrecorded(p *pass) bool {
	record, known := p.plan.Observed.Record, p.app.Status.DeployedRelease
	return record != nil && record.Own && (known == nil || int64(record.Revision) > known.Revision)
}

// summarize turns the end of a pass without errors into status.
func summarize(p *pass) {
	s := &p.app.Status
	health := release.Summarize(p.plan.Observed.Health)
	// Somebody's admission may repeat what the chart put into a pod.
	health.Message = p.redact(health.Message)
	if p.plan.Observed.BaselineKnown {
		s.Replicas, s.ReadyReplicas, s.Selector = health.Replicas, health.ReadyReplicas, health.Selector
	}
	if len(p.plan.Observed.Drifts) == 0 && !p.plan.Suspended {
		p.conditions().Remove(releasev1alpha1.ConditionDrifted)
	}
	if p.plan.Withheld || p.plan.Decision.Action == helm.ActionWait || slices.ContainsFunc(p.blockers, needsPerson) {
		if isDeployedNewest(p) && health.Healthy && missingObjects(p) == "" {
			// What is held may fail one day, and this is what to go back to then.
			s.LastGoodRevision = s.DeployedRelease.Revision
		}
		if isDeployedNewest(p) && len(p.plan.Observed.Drifts) == 0 {
			p.endRepairFailure()
		}
		summarizeBlocked(p)
		return
	}
	s.ObservedGeneration = p.app.Generation
	s.URL = serviceURL(p.app)
	if p.unhealthy != "" {
		p.conditions().Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, releasev1alpha1.ReasonHealthTimeout, p.unhealthy)
		if p.willRetry() {
			p.conditions().MarkReconciling(releasev1alpha1.ReasonHealthTimeout, p.unhealthy)
			return
		}
		p.conditions().MarkStalled(releasev1alpha1.ReasonHealthTimeout, p.unhealthy)
		return
	}
	p.conditions().Remove(releasev1alpha1.ConditionFailed)
	reason, message := deployedState(*s.DeployedRelease)
	p.conditions().Set(releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, reason, message)
	summarizeHealth(p, health)
}

// deployedState is what Deployed says of a release while it is True.
func deployedState(deployed releasev1alpha1.DeployedRelease) (reason, message string) {
	reason = releasev1alpha1.ReasonUpgradeSucceeded
	if deployed.Revision == 1 {
		reason = releasev1alpha1.ReasonInstallSucceeded
	}
	return reason, fmt.Sprintf("Revision %d of chart %s %s is deployed", deployed.Revision, deployed.Chart, deployed.ChartVersion)
}

// isDeployedNewest reports whether the newest revision is the one that the status
// speaks of, so that the health that is seen is its own.
func isDeployedNewest(p *pass) bool {
	deployed, record := p.app.Status.DeployedRelease, p.plan.Observed.Record
	return deployed != nil && record != nil && int64(record.Revision) == deployed.Revision && p.plan.Observed.BaselineKnown
}

// summarizeBlocked says what a change waits for. What was deployed before stays
// deployed meanwhile.
func summarizeBlocked(p *pass) {
	conditions := p.conditions()
	if len(p.blockers) == 0 {
		return
	}
	first := p.blockers[0]
	var messages []string
	for _, b := range p.blockers {
		messages = append(messages, b.message)
		if b.stalled && !first.stalled {
			first = b // What a person must act on comes first.
		}
	}
	reason, message := first.reason, strings.Join(messages, "; ")
	if p.app.Status.DeployedRelease == nil {
		conditions.Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, reason, message)
	}
	if first.stalled {
		conditions.MarkStalled(reason, message)
		p.app.Status.ObservedGeneration = p.app.Generation
		return
	}
	conditions.MarkReconciling(reason, message)
}

func needsPerson(b blocker) bool { return b.stalled }

func summarizeHealth(p *pass, health release.Summary) {
	conditions := p.conditions()
	missing := missingObjects(p)
	switch {
	case missing != "":
		conditions.MarkStalled(apimeta.ReasonUnhealthy, missing)
	case health.Healthy:
		p.app.Status.LastGoodRevision = p.app.Status.DeployedRelease.Revision
		forgetFailures(&p.app.Status)
		conditions.MarkReady(apimeta.ReasonHealthy, fmt.Sprintf("Revision %d is deployed and healthy", p.app.Status.DeployedRelease.Revision))
	case health.Failed:
		conditions.MarkStalled(apimeta.ReasonUnhealthy, health.Message)
	default:
		conditions.MarkReconciling(apimeta.ReasonProgressing, health.Message)
	}
}

// serviceURL is where the app answers inside the cluster. The cluster's domain
// is left to the resolver.
func serviceURL(app *v1alpha1.DemoApp) string {
	url := fmt.Sprintf("http://%s.%s.svc", app.Name, app.Namespace)
	if port := orElse(app.Spec.Service.Port, defaultPort); port != defaultPort {
		url = fmt.Sprintf("%s:%d", url, port)
	}
	return url
}
