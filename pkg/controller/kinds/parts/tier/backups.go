// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/child/component"
)

// backupFields maps fields of the PostgreSQL and the Backup to fields of the application.
var backupFields = strings.NewReplacer("spec.backup.", "spec.database.backup.", "spec.schedule", "spec.database.backup.schedule",
	"spec.retention", "spec.database.backup.retention", "spec.destination", "spec.database.backup.destination")

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

// JudgeBackups returns the condition BackupConfigured of an application with backups. configured is
// the reason if the database is backed up. The set must observe [BackupConfigured] of PostgreSQLs.
func (a Application) JudgeBackups(outcome component.Outcome, configured string) (status metav1.ConditionStatus, reason, message string) {
	database := a.Name + databaseSuffix
	found := outcome.State.Of("PostgreSQL", database).Condition
	if backup := outcome.Of(Backup); backup.Ready {
		found.Status = metav1.ConditionTrue
	} else if backup.Name != "" {
		found = child.Condition{Status: metav1.ConditionFalse, Reason: backup.Reason, Message: backup.Message}
	}
	switch found.Status {
	case metav1.ConditionTrue:
		return found.Status, configured, fmt.Sprintf("Backups are made at %s and kept for %s: Backup %q is Ready",
			a.Database.Backups.Schedule, a.Database.Backups.Retention, database+backupSuffix)
	case metav1.ConditionFalse:
		return found.Status, found.Reason, backupFields.Replace(found.Message)
	default:
		return metav1.ConditionUnknown, databasev1.ReasonWaitingForDatabase, "The database has not reported whether backups are made"
	}
}
