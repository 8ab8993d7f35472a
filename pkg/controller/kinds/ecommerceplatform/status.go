// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
)

// conditionOf has the conditions of the components.
var conditionOf = map[string]string{
	tier.Database: platformv1.ConditionDatabaseReady, tier.Cache: platformv1.ConditionCacheReady,
	tier.Backend: platformv1.ConditionBackendReady, tier.Frontend: platformv1.ConditionFrontendReady,
	tier.Monitoring: platformv1.ConditionMonitoringReady, tier.Ingress: platformv1.ConditionIngressReady,
}

// summarize sets the status. taken says why the platform cannot have its host, and problem why it
// has no credentials.
func summarize(p *pass, app tier.Application, outcome component.Outcome, taken string, problem *datastore.Problem) {
	s, conditions := &p.Object.Status, p.Conditions()
	s.ObservedGeneration = p.Object.Generation
	outcome.Report(p)
	outcome.SetConditions(conditions, conditionOf)
	if outcome.State.IsUnserved(tier.ServiceMonitor.Kind) {
		conditions.Set(platformv1.ConditionMonitoringReady, metav1.ConditionFalse, platformv1.ReasonNotServed,
			"The API server does not serve ServiceMonitors: install Prometheus Operator, or set spec.monitoring.enabled to false")
	}
	configured, reason, message := judgeBackups(app, outcome)
	conditions.Set(platformv1.ConditionBackupConfigured, configured, reason, message)
	if problem != nil && outcome.Err == nil {
		conditions.Set(platformv1.ConditionDatabaseReady, metav1.ConditionFalse, problem.Reason, problem.Message)
		problem.Report(p)
	}
	if taken != "" {
		conditions.Set(platformv1.ConditionIngressReady, metav1.ConditionFalse, platformv1.ReasonHostTaken, taken)
		conditions.MarkStalled(platformv1.ReasonHostTaken, taken)
	}
	s.Host = servedHost(p.Object, outcome.Of(tier.Ingress).Ready && taken == "")
	s.Endpoints = platformv1.PlatformEndpoints{
		Database: outcome.Of(tier.Database).Endpoint, Cache: outcome.Of(tier.Cache).Endpoint, Backend: outcome.Of(tier.Backend).Endpoint,
		Frontend: cmp.Or(outcome.Of(tier.Ingress).Endpoint, outcome.Of(tier.Frontend).Endpoint),
	}
	required := p.Object.Spec.Database.Backup != nil && p.Object.Spec.Database.Backup.Required
	unmade := datastore.ReportUnmade(conditions, required, platformv1.ReasonBackupsOff, platformv1.ReasonNoDestination, childv1alpha1.ReasonAwaitingChange)
	s.Phase = outcome.Phase(s.Conditions)
	if _, stalled := conditions.Current(apimeta.ConditionStalled); unmade && !stalled {
		s.Phase = childv1alpha1.PhaseDegraded
	}
}

// servedHost returns the host that the Ingress of a platform serves. An Ingress that could not be
// changed or deleted, or whose new host is taken, serves the host that it had before.
func servedHost(p *platformv1.EcommercePlatform, ready bool) string {
	exists := slices.ContainsFunc(p.Status.Children.Applied, func(c childv1alpha1.AppliedChild) bool { return c.Kind == "Ingress" })
	if ready {
		return p.Spec.Ingress.Host
	}
	if exists {
		return p.Status.Host
	}
	return ""
}

// judgeBackups returns the condition BackupConfigured.
func judgeBackups(app tier.Application, outcome component.Outcome) (configured metav1.ConditionStatus, reason, message string) {
	switch {
	case app.Database.Backups == nil:
		return metav1.ConditionFalse, platformv1.ReasonBackupsOff,
			"Backups are off: set spec.database.backup.enabled to true and spec.database.backup.destination to switch them on"
	case outcome.State.IsUnserved("Backup"):
		return metav1.ConditionFalse, platformv1.ReasonNotServed, "The API server does not serve Backups: install the kind Backup"
	case !app.Database.Backups.HasDestination && !app.HasBackup(outcome):
		return metav1.ConditionFalse, platformv1.ReasonNoDestination, datastore.NoDestination("spec.database.backup")
	default:
		return app.JudgeBackups(outcome, platformv1.ReasonConfigured)
	}
}
