// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"fmt"
	"slices"
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
)

// observation is what a pass found out.
type observation struct {
	state        child.State
	primaryReady bool
	// initialized says that the primary was ready once.
	initialized bool
	backup      *backupv1.Backup
}

// wasReady reports whether the primary was ready once.
func wasReady(p *databasev1.PostgreSQL) bool {
	ready := meta.FindStatusCondition(p.Status.Conditions, databasev1.ConditionDatabaseReady)
	return ready != nil && ready.Reason != databasev1.ReasonStarting
}

func hostOf(p *databasev1.PostgreSQL) string {
	return p.Name + "." + p.Namespace + ".svc.cluster.local"
}

// summarize makes the status of what a pass found out.
func summarize(p *pass, o observation, problem *datastore.Problem, err error) {
	s := &p.Object.Status
	servers := o.state.Of("StatefulSet", p.Object.Name).Health
	s.ObservedGeneration = p.Object.Generation
	s.ReadyReplicas = servers.ReadyReplicas
	s.Endpoint = fmt.Sprintf("%s:%d", hostOf(p.Object), port)
	if o.backup != nil && o.backup.Status.LastSuccessfulTime != nil {
		s.LastBackupTime = o.backup.Status.LastSuccessfulTime
	}
	// A database whose backups fail is ready. BackupConfigured reports the failure.
	child.Report(p, o.state.Without("Backup"), err)
	if problem != nil && err == nil {
		problem.Report(p)
	}
	reportDatabase(p, o)
	reportBackup(p, o)
	s.Phase = phase(p.Object, servers.Replicas, o.initialized)
}

func reportDatabase(p *pass, o observation) {
	status, reason, message := metav1.ConditionFalse, databasev1.ReasonStarting, "The primary was not ready yet"
	switch {
	case o.primaryReady:
		status, reason, message = metav1.ConditionTrue, databasev1.ReasonAvailable, "The primary accepts writes"
	case o.initialized:
		reason, message = databasev1.ReasonUnavailable, fmt.Sprintf("The primary is not ready: see the events and the log of Pod %q", p.Object.Name+"-0")
	}
	p.Conditions().Set(databasev1.ConditionDatabaseReady, status, reason, message)
}

// backupFields maps fields of the Backup to fields of the PostgreSQL.
var backupFields = strings.NewReplacer(
	"spec.schedule", "spec.backup.schedule", "spec.retention", "spec.backup.retention", "spec.destination", "spec.backup.destination")

func reportBackup(p *pass, o observation) {
	status, reason, message := metav1.ConditionFalse, databasev1.ReasonBackupDisabled, "spec.backup.enabled is not true"
	name := backupName(p.Object)
	switch backup := o.state.Of("Backup", name); {
	case !backupEnabled(p.Object):
	case !o.initialized:
		reason, message = databasev1.ReasonWaitingForDatabase, "The Backup is created when the database is ready for the first time"
	case slices.Contains(o.state.Unserved, childv1alpha1.ChildName("Backup/"+name)):
		reason, message = databasev1.ReasonBackupUnserved, "The kind Backup is not installed: install artifacts/kinds/backup"
	case backup.Health.Status == kstatus.CurrentStatus:
		status, reason, message = metav1.ConditionTrue, databasev1.ReasonBackupReady, fmt.Sprintf("Backup %q is Ready", name)
	default:
		reason, message = databasev1.ReasonBackupNotReady, fmt.Sprintf("Backup %q is not Ready: %s", name, backupFields.Replace(backup.Health.Message))
	}
	p.Conditions().Set(databasev1.ConditionBackupConfigured, status, reason, message)
}

// phase summarizes the conditions.
func phase(p *databasev1.PostgreSQL, servers int32, initialized bool) string {
	switch conditions := p.Status.Conditions; {
	case meta.IsStatusConditionTrue(conditions, apimeta.ConditionStalled):
		return databasev1.PhaseFailed
	case meta.IsStatusConditionTrue(conditions, apimeta.ConditionReady):
		return databasev1.PhaseRunning
	case servers == 0:
		return databasev1.PhasePending
	case initialized && p.Status.ReadyReplicas < *p.Spec.Replicas:
		return databasev1.PhaseDegraded
	default:
		return databasev1.PhaseDeploying
	}
}

func transitions(before, after *databasev1.PostgreSQL) []event.Event {
	return child.Events(before.Status.Children, after.Status.Children, before.Status.Conditions, after.Status.Conditions)
}
