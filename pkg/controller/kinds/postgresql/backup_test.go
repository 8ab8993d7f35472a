// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

func withBackup(p *databasev1.PostgreSQL) {
	p.Spec.Backup = &databasev1.PostgreSQLBackup{
		Enabled: true, Schedule: "0 2 * * *", Retention: "30d",
		Destination: &backupv1.Destination{Type: "s3", Bucket: "dumps", Prefix: "db", CredentialsSecret: "bucket"},
	}
}

func TestBackupIsCreatedWhenDatabaseIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.serveBackups()
		run := backupv1.Run{Timeout: &metav1.Duration{Duration: 12 * time.Hour}, PodLabels: map[string]backupv1.LabelValue{"team": "shop"}}

		w.create(func(p *databasev1.PostgreSQL) {
			withBackup(p)
			p.Spec.Backup.Volume = &backupv1.Volume{Size: "200Gi", StorageClassName: "fast"}
			p.Spec.Backup.Run = &run
		})
		expect.Equal(t, "requests of the creation", created, w.Take())
		expect.Equal(t, "BackupConfigured", databasev1.ReasonWaitingForDatabase, w.condition(databasev1.ConditionBackupConfigured).Reason)
		w.makeServersReady()

		backup, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "source", backupv1.Source{Type: "postgresql", Connection: backupv1.Connection{
			Host: "db.ns.svc", Port: 5432, Database: "app", CredentialsSecret: "db-credentials",
		}}, backup.Spec.Source)
		expect.Equal(t, "run", run, *backup.Spec.Run)
		expect.Equal(t, "volume", backupv1.Volume{Size: "200Gi", StorageClassName: "fast"}, *backup.Spec.Volume)
		expect.Equal(t, "BackupConfigured", databasev1.ReasonBackupNotReady, w.condition(databasev1.ConditionBackupConfigured).Reason)
		w.setBackup(metav1.ConditionTrue, "scheduled", nil)
		expect.Equal(t, "BackupConfigured of a Backup that is Ready", databasev1.ReasonBackupReady, w.condition(databasev1.ConditionBackupConfigured).Reason)
		last := metav1.NewTime(time.Now().Truncate(time.Second))
		w.setBackup(metav1.ConditionTrue, "scheduled", &last)
		expect.Equal(t, "lastBackupTime", true, w.database().Status.LastBackupTime.Equal(&last))
	})
}

// TestBackupIsKeptWhileDatabaseIsUnavailable: the first time that the database was ready counts.
func TestBackupIsKeptWhileDatabaseIsUnavailable(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serveBackups()
		w.setPod(0, corev1.ConditionFalse)
		w.makeStatefulSetReady(2)

		w.change(withBackup)

		_, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.NoError(t, err)
	})
}

// TestDatabaseWithFailingBackupIsDegraded: Ready tells that backups that are enabled are not made.
func TestDatabaseWithFailingBackupIsDegraded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serveBackups()
		w.change(withBackup)

		w.setBackup(metav1.ConditionFalse, "the bucket refuses the dump", nil)

		expect.Equal(w.t, "Ready", databasev1.ReasonBackupNotReady, w.ready().Reason)
		expect.Equal(w.t, "phase", databasev1.PhaseDegraded, w.database().Status.Phase)
		expect.Equal(w.t, "DatabaseReady", metav1.ConditionTrue, w.condition(databasev1.ConditionDatabaseReady).Status)
		configured := w.condition(databasev1.ConditionBackupConfigured)
		expect.Equal(w.t, "BackupConfigured", databasev1.ReasonBackupNotReady, configured.Reason)
		if !strings.Contains(configured.Message, "the bucket refuses the dump") {
			t.Errorf("message is %q", configured.Message)
		}
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Backup.Enabled = false })
		expect.Equal(w.t, "BackupConfigured when disabled", databasev1.ReasonBackupDisabled, w.condition(databasev1.ConditionBackupConfigured).Reason)
		_, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.Equal(w.t, "the Backup is gone", true, apierrors.IsNotFound(err))
		expect.Equal(w.t, "Ready without backups", metav1.ConditionTrue, w.ready().Status)
	})
}

func TestMessageOfBackupNamesFieldOfDatabase(t *testing.T) {
	tests := map[string]string{
		`spec.schedule: schedule "daily" cannot be understood`: `spec.backup.schedule: schedule "daily" cannot be understood`,
		"spec.destination.prefix: the dumps belong to another Backup, which has the UID a: set spec.destination.takeOverFrom": "" +
			"spec.backup.destination.prefix: the dumps belong to another Backup, which has the UID a: set spec.backup.destination.takeOverFrom",
		`spec.source.connection: the database refuses the login: correct password in Secret "db-credentials"`: "" +
			`the database refuses the login: correct password in Secret "db-credentials"`,
		"spec.source.connection.credentialsSecret: the username has a line break": "the username has a line break",
		"spec.source: the dump failed":                                            "the dump failed",
		"spec.volume.size: is too small":                                          "spec.backup.volume.size: is too small",
	}
	inWorld(t, func(w *world) {
		w.serveBackups()
		w.change(withBackup)
		for ofBackup, want := range tests {
			w.setBackup(metav1.ConditionFalse, ofBackup, nil)

			want := `Backup "db-backup" is not Ready: ` + want
			expect.Equal(w.t, "message", want, w.condition(databasev1.ConditionBackupConfigured).Message)
			expect.Equal(w.t, "message of Ready", want, w.ready().Message)
		}
	})
}

// TestBackupIsKeptWhileSecretIsMissing: the name of the database is in the Secret.
func TestBackupIsKeptWhileSecretIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.serveBackups()
		w.createSecret(&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"password": []byte("theirs"), "database": []byte("shop")}})
		w.create(withBackup)
		w.makeServersReady()
		controllertest.Delete(w.World, w.kube.CoreV1().Secrets("ns").Delete, "db-credentials")

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Backup.Schedule = "0 3 * * *" })

		backup, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "reason", databasev1.ReasonCredentialsMissing, w.ready().Reason)
		expect.Equal(t, "database", "shop", backup.Spec.Source.Connection.Database)
		expect.Equal(t, "schedule", "0 2 * * *", backup.Spec.Schedule)
	})
}

func TestBackupWaitsForItsKind(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(withBackup)
		expect.Equal(w.t, "BackupConfigured", databasev1.ReasonBackupUnserved, w.condition(databasev1.ConditionBackupConfigured).Reason)
		expect.Equal(w.t, "Ready", databasev1.ReasonBackupUnserved, w.ready().Reason)

		w.serveBackups()

		_, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.NoError(t, err)
	})
}
