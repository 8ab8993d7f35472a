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
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
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

// TestDatabaseWithFailingBackupIsDegraded: Ready reports that backups are enabled but not made.
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

// withoutDestination enables backups as tutorials do.
func withoutDestination(p *databasev1.PostgreSQL) {
	p.Spec.Backup = &databasev1.PostgreSQLBackup{Enabled: true, Schedule: "0 2 * * *", Retention: "30d"}
}

const noDestination = "spec.backup.destination: is missing, and the operator has no --default-backup-destination, so nothing is backed up: set it, " +
	"or set spec.backup.enabled to false"

// TestBackupsWithoutDestination: the database is Ready, and the condition and an event say that nothing
// is backed up.
func TestBackupsWithoutDestination(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serveBackups()

		w.change(withoutDestination)

		expect.Equal(w.t, "requests", []string{"patch postgresqls/db status", "event Normal Healthy", "event Warning NoDestination"}, w.Take())
		configured := w.condition(databasev1.ConditionBackupConfigured)
		expect.Equal(w.t, "reason", databasev1.ReasonNoDestination, configured.Reason)
		expect.Equal(w.t, "message", noDestination, configured.Message)
		expect.Equal(w.t, "Ready", metav1.ConditionTrue, w.ready().Status)
		expect.Equal(w.t, "phase", databasev1.PhaseRunning, w.database().Status.Phase)
	})
}

// TestRequiredBackups: Ready depends on backups that are required, whatever the reason.
func TestRequiredBackups(t *testing.T) {
	tests := map[string]struct {
		change        func(*databasev1.PostgreSQL)
		reason, phase string
	}{
		"no destination": {withoutDestination, databasev1.ReasonNoDestination, databasev1.PhaseFailed},
		"disabled": {
			func(p *databasev1.PostgreSQL) { p.Spec.Backup = &databasev1.PostgreSQLBackup{} }, databasev1.ReasonBackupDisabled, databasev1.PhaseFailed,
		},
		"not installed": {withBackup, databasev1.ReasonBackupUnserved, databasev1.PhaseDegraded},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.change(func(p *databasev1.PostgreSQL) {
					test.change(p)
					p.Spec.Backup.Required = true
				})

				expect.Equal(w.t, "Ready", metav1.ConditionFalse, w.ready().Status)
				expect.Equal(w.t, "reason", test.reason, w.ready().Reason)
				expect.Equal(w.t, "phase", test.phase, w.database().Status.Phase)
			})
		})
	}
}

// TestDefaultDestination: a restart with another flag moves only the backups of databases that name
// no destination.
func TestDefaultDestination(t *testing.T) {
	inWorld(t, func(w *world) {
		w.restartWith(map[string]string{"type": "s3", "bucket": "backups", "prefix": "prod"})
		w.change(func(p *databasev1.PostgreSQL) {
			withoutDestination(p)
			p.Spec.Backup.ServiceAccountName = "backups"
		})
		expect.Equal(t, "destination", backupv1.Destination{Type: "s3", Bucket: "backups", Prefix: "prod/ns"}, w.backup().Spec.Destination)
		expect.Equal(t, "account", "backups", w.backup().Spec.ServiceAccountName)

		w.restartWith(map[string]string{"type": "gcs", "bucket": "others"})
		expect.Equal(t, "destination of another flag", backupv1.Destination{Type: "gcs", Bucket: "others", Prefix: "ns"}, w.backup().Spec.Destination)

		w.change(withBackup)
		w.restartWith(map[string]string{"type": "gcs", "bucket": "others"})
		expect.Equal(t, "given destination", *w.database().Spec.Backup.Destination, w.backup().Spec.Destination)
	})
}

// TestBackupStaysWithoutDestination: a Backup whose destination nobody names any more goes on with its
// former one, until a user disables backups.
func TestBackupStaysWithoutDestination(t *testing.T) {
	removals := map[string]struct{ before, after func(w *world) }{
		"the flag is gone": {
			func(w *world) {
				w.restartWith(map[string]string{"type": "s3", "bucket": "backups"})
				w.change(withoutDestination)
			},
			func(w *world) { w.restartWith(nil) },
		},
		"the flag is gone, and the kind is served late": {
			func(w *world) {
				w.restartWith(map[string]string{"type": "s3", "bucket": "backups"})
				w.change(withoutDestination)
			},
			func(w *world) {
				w.Stop()
				w.destination = datastore.DefaultDestination{}
				w.start()
				w.setPod(1, corev1.ConditionFalse) // A pass before the kind is served.
				expect.Equal(w.t, "reason before the kind is served", databasev1.ReasonBackupUnserved, w.condition(databasev1.ConditionBackupConfigured).Reason)
				w.serveBackups()
			},
		},
		"the field is gone": {
			func(w *world) {
				w.serveBackups()
				w.change(withBackup)
			},
			func(w *world) { w.change(withoutDestination) },
		},
	}
	for name, removal := range removals {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				removal.before(w)
				w.setBackup(metav1.ConditionTrue, "scheduled", nil)
				spec := w.backup().Spec

				removal.after(w)

				expect.Equal(w.t, "spec of the Backup", spec, w.backup().Spec)
				configured := w.condition(databasev1.ConditionBackupConfigured)
				expect.Equal(w.t, "BackupConfigured", metav1.ConditionTrue, configured.Status)
				expect.Equal(w.t, "reason", databasev1.ReasonDestinationRetained, configured.Reason)
				expect.Equal(w.t, "message", datastore.DestinationRetained("db-backup", "spec.backup"), configured.Message)
				expect.Equal(w.t, "Ready", metav1.ConditionTrue, w.ready().Status)

				w.change(func(p *databasev1.PostgreSQL) { p.Spec.Backup.Enabled = false })
				_, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
				expect.Equal(w.t, "the Backup is gone when backups are disabled", true, apierrors.IsNotFound(err))
			})
		})
	}
}

// TestRetainedBackupThatIsDeleted: a Backup without a destination is not made again.
func TestRetainedBackupThatIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serveBackups()
		w.change(withBackup)
		w.change(withoutDestination)

		controllertest.Delete(w.World, w.client.BackupV1().Backups("ns").Delete, "db-backup")

		expect.Equal(w.t, "BackupConfigured", databasev1.ReasonNoDestination, w.condition(databasev1.ConditionBackupConfigured).Reason)
		w.change(withBackup)
		expect.Equal(w.t, "destination", *w.database().Spec.Backup.Destination, w.backup().Spec.Destination)
	})
}

// restartWith restarts the operator with this default destination.
func (w *world) restartWith(destination map[string]string) {
	w.t.Helper()
	w.Stop()
	var err error
	w.destination, err = datastore.ParseDestination(destination)
	expect.NoError(w.t, err)
	w.start()
	w.serveBackups()
}

func (w *world) backup() *backupv1.Backup {
	w.t.Helper()
	return controllertest.Get(w.World, w.client.BackupV1().Backups("ns").Get, "db-backup")
}
