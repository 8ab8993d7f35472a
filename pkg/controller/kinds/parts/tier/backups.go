// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"slices"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/health"
)

// backupFields maps fields of the PostgreSQL and the Backup to fields of the application.
var backupFields = datastore.BackupFields("spec.database.backup")

// ofBackups are the reasons of Ready that are about backups alone.
var ofBackups = []string{
	databasev1.ReasonBackupNotReady, databasev1.ReasonBackupUnserved, databasev1.ReasonBackupDisabled, databasev1.ReasonNoDestination,
}

// ofMadeBackups are the reasons of a PostgreSQL without a destination that has a Backup nevertheless.
var ofMadeBackups = []string{databasev1.ReasonDestinationRetained, databasev1.ReasonBackupNotReady, databasev1.ReasonBackupUnserved}

// DatabaseHealth is the health of a PostgreSQL, for [child.ManagedKind.WithHealth]. A PostgreSQL
// that is not Ready only because its backups are not made is healthy, so that the other components
// start.
func DatabaseHealth(object metav1.Object) health.Health {
	found := health.OfReporting(object, databasev1.SchemeGroupVersion.WithKind("PostgreSQL"))
	database, ok := object.(*databasev1.PostgreSQL)
	if !ok || database.Status.ObservedGeneration != database.Generation {
		return found
	}
	ready := meta.FindStatusCondition(database.Status.Conditions, apimeta.ConditionReady)
	if ready != nil && slices.Contains(ofBackups, ready.Reason) {
		found.Status = kstatus.CurrentStatus
	}
	return found
}

// BackupConfigured is the condition BackupConfigured of a PostgreSQL, for
// [child.ManagedKind.WithCondition]. It is empty while the PostgreSQL has not reported on its
// newest generation.
func BackupConfigured(object metav1.Object) child.Condition {
	database, ok := object.(*databasev1.PostgreSQL)
	if !ok || database.Status.ObservedGeneration != database.Generation {
		return child.Condition{}
	}
	found := meta.FindStatusCondition(database.Status.Conditions, databasev1.ConditionBackupConfigured)
	if found == nil {
		return child.Condition{}
	}
	return child.Condition{Status: found.Status, Reason: found.Reason, Message: found.Message}
}

// HasBackup reports whether a Backup exists, or its PostgreSQL reports one.
func (a Application) HasBackup(outcome component.Outcome) bool {
	database := a.Name + databaseSuffix
	reported := outcome.State.Of("PostgreSQL", database).Condition.Reason
	return outcome.State.Of(backupKind, database+backupSuffix).Name != "" || slices.Contains(ofMadeBackups, reported)
}

// JudgeBackups returns the condition BackupConfigured of an application with backups. configured is
// the reason if the database is backed up. The set must observe [BackupConfigured] of PostgreSQLs,
// and [datastore.Suspended] of Backups.
func (a Application) JudgeBackups(outcome component.Outcome, configured string) (status metav1.ConditionStatus, reason, message string) {
	database := a.Name + databaseSuffix
	found := outcome.State.Of("PostgreSQL", database).Condition
	switch backup, suspended := outcome.Of(Backup), outcome.State.Of(backupKind, database+backupSuffix).Condition; {
	case suspended.Status != "":
		found = suspended
	case backup.Ready:
		found.Status = metav1.ConditionTrue
	case backup.Name != "":
		found = child.Condition{Status: metav1.ConditionFalse, Reason: backup.Reason, Message: backup.Message}
	}
	switch {
	case found.Status == metav1.ConditionTrue && !a.Database.Backups.HasDestination:
		return found.Status, databasev1.ReasonDestinationRetained, datastore.DestinationRetained(database+backupSuffix, "spec.database.backup")
	case found.Status == metav1.ConditionTrue:
		return found.Status, configured, fmt.Sprintf("Backups are made at %s and kept for %s: Backup %q is Ready",
			a.Database.Backups.Schedule, a.Database.Backups.Retention, database+backupSuffix)
	case found.Status == metav1.ConditionFalse:
		if found.Reason == databasev1.ReasonBackupDisabled {
			return found.Status, childv1alpha1.ReasonAwaitingChange, fmt.Sprintf("PostgreSQL %q of an earlier version of the operator gets its "+
				"backups with the next change of the spec; annotation %s applies them now", database, apimeta.AnnotationForceAt)
		}
		return found.Status, found.Reason, backupFields.Replace(found.Message)
	default:
		return metav1.ConditionUnknown, databasev1.ReasonWaitingForDatabase, "The database has not reported whether backups are made"
	}
}
