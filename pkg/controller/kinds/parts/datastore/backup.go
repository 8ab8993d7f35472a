// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
)

// BackupFields maps fields in messages of a Backup, or of a PostgreSQL about its Backup, to fields
// below field, such as "spec.backup". The owner of the Backup decides its source, so users have no
// field for the source: its name is left out.
func BackupFields(field string) *strings.Replacer {
	return strings.NewReplacer("spec.backup.", field+".", "spec.schedule", field+".schedule", "spec.retention", field+".retention",
		"spec.destination", field+".destination", "spec.volume", field+".volume",
		"spec.source.connection.credentialsSecret: ", "", "spec.source.connection: ", "", "spec.source: ", "")
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
