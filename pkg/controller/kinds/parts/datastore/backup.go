// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
)

// BackupFields maps fields in messages of a Backup, or of a PostgreSQL about its Backup, to fields
// below field, such as "spec.backup". The owner of the Backup decides its source, so users have no
// field for the source: its name is left out.
func BackupFields(field string) *strings.Replacer {
	return strings.NewReplacer("spec.backup.", field+".", "spec.schedule", field+".schedule", "spec.retention", field+".retention",
		"spec.destination", field+".destination", "spec.volume", field+".volume",
		"spec.source.connection.credentialsSecret: ", "", "spec.source.connection: ", "", "spec.source: ", "")
}

// UnmadeBackups is the warning about backups that an owner requests and that nothing can make.
var UnmadeBackups = kind.Warning{
	Name: "NoBackup", Condition: databasev1.ConditionBackupConfigured,
	Reasons: []string{databasev1.ReasonNoDestination, childv1alpha1.ReasonAwaitingChange},
}

// NoDestination says that nothing is backed up, because neither a field below field, such as
// "spec.backup", nor the operator names a bucket.
func NoDestination(field string) string {
	return fmt.Sprintf("%[1]s.destination: is missing, and the operator has no --default-backup-destination, so nothing is backed up: "+
		"set it, or set %[1]s.enabled to false", field)
}

// DestinationRetained says that a Backup stays as it was, because neither a field below field, such as
// "spec.backup", nor the operator names a bucket any more.
func DestinationRetained(backup, field string) string {
	return fmt.Sprintf("%[1]s.destination: is missing, and the operator has no --default-backup-destination, so Backup %[2]q stays as it is, "+
		"with its former destination, and changes of %[1]s do not reach it: set %[1]s.destination, or set %[1]s.enabled to false, which "+
		"deletes the Backup and keeps its dumps", field, backup)
}

// ReportUnmade sets Ready to False while backups that are configured are not made. Backups that are
// off, or that nothing can make, have one of the reasons idle. They leave Ready as it is, unless the
// spec requires backups: then a person has to act. It reports whether it set Ready.
func ReportUnmade(conditions status.Editor, required bool, idle ...string) bool {
	ready, _ := conditions.Current(apimeta.ConditionReady)
	backup, _ := conditions.Current(databasev1.ConditionBackupConfigured)
	isIdle := slices.Contains(idle, backup.Reason)
	switch {
	case ready.Status != metav1.ConditionTrue, backup.Status == metav1.ConditionTrue, isIdle && !required:
		return false
	case isIdle:
		conditions.MarkStalled(backup.Reason, backup.Message)
	default:
		conditions.MarkReconciling(backup.Reason, backup.Message)
	}
	return true
}

// Suspended is the condition of a Backup that makes no backups because it is suspended, for
// [child.ManagedKind.WithCondition]. The Backup itself is Ready. The condition of other Backups is
// empty.
func Suspended(object metav1.Object) child.Condition {
	backup, ok := object.(*backupv1.Backup)
	if !ok || !backup.Spec.Suspend {
		return child.Condition{}
	}
	return child.Condition{
		Status: metav1.ConditionFalse, Reason: databasev1.ReasonBackupNotReady,
		Message: fmt.Sprintf("Backup %q is suspended: set its spec.suspend to false", backup.Name),
	}
}
