// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
)

// ownerOfDumps returns the environment by which the upload of a Backup recognizes its dumps.
func (v *vault) ownerOfDumps() map[string]string {
	v.t.Helper()
	found := map[string]string{}
	for _, variable := range v.cronJob().Spec.JobTemplate.Spec.Template.Spec.Containers[0].Env {
		switch variable.Name {
		case "BACKUP_NAME", "BACKUP_UID", "BACKUP_NAMESPACE_UID", "BACKUP_TAKE_OVER_FROM", "BACKUP_PREFIX":
			found[variable.Name] = variable.Value
		}
	}
	return found
}

// TestPostgreSQLTakesOverItsDumps: the Backup of a PostgreSQL that is created again has another
// UID, in the same namespace, so that its upload takes over the dumps. The dumps of another owner
// are refused: the PostgreSQL reports it, with its own field, until the owner is named.
func TestPostgreSQLTakesOverItsDumps(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, true)
	v := &vault{&plain[*backupv1.Backup]{
		t: t, namespace: d.namespace, name: "db-backup", client: d.client, objects: d.client.BackupV1().Backups(d.namespace),
	}}
	createKeys(t, d.namespace, "bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
	withBackup := func(s *databasev1.PostgreSQLSpec) {
		s.Replicas = ptr.To(int32(1))
		s.Backup = &databasev1.PostgreSQLBackup{
			Enabled: true, Destination: &backupv1.Destination{Type: "s3", Bucket: "dumps", Prefix: "db", CredentialsSecret: "bucket"},
		}
	}
	namespace, err := shared.Client.CoreV1().Namespaces().Get(t.Context(), d.namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	d.create(withBackup)
	d.awaitReady()
	v.awaitReady()
	first := v.ownerOfDumps()
	d.remove()
	d.create(withBackup)
	d.awaitReady()
	v.awaitReady()
	second := v.ownerOfDumps()

	if first["BACKUP_UID"] == second["BACKUP_UID"] || second["BACKUP_UID"] == "" {
		t.Errorf("the UIDs of the owners are %q and %q", first["BACKUP_UID"], second["BACKUP_UID"])
	}
	for _, same := range []string{"BACKUP_NAME", "BACKUP_PREFIX", "BACKUP_NAMESPACE_UID"} {
		if first[same] != second[same] || first[same] == "" {
			t.Errorf("%s is %q and %q", same, first[same], second[same])
		}
	}
	if second["BACKUP_NAMESPACE_UID"] != string(namespace.UID) {
		t.Errorf("BACKUP_NAMESPACE_UID is %q, want %q", second["BACKUP_NAMESPACE_UID"], namespace.UID)
	}

	v.createGatedJob("db-backup-1")
	v.failPod("db-backup-1", 25, "the dumps in DEST:dumps/db belong to another Backup, which has the UID a-1")
	refused := d.await(apimeta.ConditionReady, databasev1.ReasonBackupNotReady)
	message := meta.FindStatusCondition(refused.Status.Conditions, databasev1.ConditionBackupConfigured).Message
	for _, part := range []string{
		"spec.backup.destination.prefix: the dumps in DEST:dumps/db belong to another Backup, which has the UID a-1",
		"choose another prefix, or set spec.backup.destination.takeOverFrom to the UID",
	} {
		assertContains(t, "message", message, part)
	}
	if refused.Status.Phase != databasev1.PhaseDegraded {
		t.Errorf("phase is %s", refused.Status.Phase)
	}

	d.patch(`{"backup":{"destination":{"takeOverFrom":"a-1"}}}`)
	v.awaitObject("the Backup takes over", func(b *backupv1.Backup) bool {
		return b.Spec.Destination.TakeOverFrom == "a-1" && b.Status.ObservedGeneration == b.Generation
	})
	if named := v.ownerOfDumps(); named["BACKUP_TAKE_OVER_FROM"] != "a-1" {
		t.Errorf("the environment of the upload is %v", named)
	}
	v.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, backupv1.AnnotationRunNow, time.Now()))
	d.awaitReady()
}

// TestPostgreSQLLeavesSecretOfOthersAlone: a foreign Secret with the name of the certificate's
// Secret is reported, and is not changed.
func TestPostgreSQLLeavesSecretOfOthersAlone(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, true)
	secrets := shared.Client.CoreV1().Secrets(d.namespace)
	theirs, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "db-tls", Labels: map[string]string{databasev1.LabelCertificate: "db"}},
		Data:       map[string][]byte{"tls.crt": []byte("theirs")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	d.create(func(s *databasev1.PostgreSQLSpec) {
		s.Replicas = ptr.To(int32(1))
		s.TLS = &databasev1.PostgreSQLTLS{}
	})

	conflict := d.await("Stalled", apimeta.ReasonOwnershipConflict)
	assertContains(t, "message", meta.FindStatusCondition(conflict.Status.Conditions, "Stalled").Message, `Secret "db-tls" exists and belongs to no owner`)
	live, err := secrets.Get(t.Context(), "db-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if live.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the Secret was changed: %+v", live.ObjectMeta)
	}
	if err := secrets.Delete(t.Context(), "db-tls", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.patch(`{"tls":{"required":true}}`)
	d.awaitReady()
}
