// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	databaseclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/database/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// backupCRD is the file of the CRD of Backups.
const backupCRD = "artifacts/kinds/backup/crd.yaml"

// restoredWithin bounds the time from the return of a CRD to the return of its objects. It exceeds
// the pause of an informer between two lists after an absence of seconds. Without news of the CRD,
// an owner would try again after 5 minutes.
const restoredWithin = time.Minute

// TestChildReturnsWithItsCRD deletes the CRD of Backups, and with it the Backup of a PostgreSQL.
// The PostgreSQL is not Ready until the CRD and the Backup are back.
func TestChildReturnsWithItsCRD(t *testing.T) {
	err := errors.Join(
		shared.InstallCRDs(t.Context(), "artifacts/kinds/postgresql/crd.yaml", backupCRD),
		shared.ApplyFiles(t.Context(), "", "artifacts/kinds/postgresql/rbac.yaml", "artifacts/kinds/backup/rbac.yaml"),
	)
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := shared.Namespace(t)
	shared.Volume(t, namespace, "data-db-0", "1Gi")
	_, err = shared.Client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bucket"},
		StringData: map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.StartOperator(t.Context(), t, shared)
	databases, backups := client.DatabaseV1().PostgreSQLs(namespace), client.BackupV1().Backups(namespace)
	_, err = databases.Create(t.Context(), &databasev1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: databasev1.PostgreSQLSpec{Version: "16", Storage: "1Gi", Replicas: ptr.To(int32(1)), Backup: &databasev1.PostgreSQLBackup{
			Enabled: true, Destination: &backupv1.Destination{Type: "s3", Bucket: "dumps", CredentialsSecret: "bucket"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, done func(ready *metav1.Condition) bool) (found *databasev1.PostgreSQL) {
		t.Helper()
		cluster.Eventually(t.Context(), t, what, func(ctx context.Context) (bool, error) {
			if found, err = databases.Get(ctx, "db", metav1.GetOptions{}); err != nil {
				return false, err
			}
			ready := readyOf(found)
			return ready.ObservedGeneration == found.Generation && done(ready), nil
		})
		return found
	}
	isReady := func(ready *metav1.Condition) bool { return ready.Status == metav1.ConditionTrue }
	await("the PostgreSQL is Ready", isReady)
	first, err := backups.Get(t.Context(), "db-backup", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	deleteCRDs(t, "backups.backup.example.com")

	lacking := await("the PostgreSQL lacks its Backup", func(ready *metav1.Condition) bool {
		return ready.Status == metav1.ConditionFalse && ready.Reason == childv1alpha1.ReasonKindUnserved
	})
	if err := shared.InstallCRDs(t.Context(), backupCRD); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var second *backupv1.Backup
	cluster.Eventually(t.Context(), t, "the Backup is back", func(ctx context.Context) (bool, error) {
		second, err = backups.Get(ctx, "db-backup", metav1.GetOptions{})
		return err == nil && second.UID != first.UID, err
	})
	took := time.Since(begin)
	t.Logf("the Backup came back %s after its CRD", took)
	if took > restoredWithin {
		t.Errorf("the Backup came back %s after its CRD, want at most %s", took, restoredWithin)
	}
	await("the PostgreSQL is Ready again", isReady)
	assertReadyAfter(t, databases, lacking, second)
}

func readyOf(database *databasev1.PostgreSQL) *metav1.Condition {
	if found := meta.FindStatusCondition(database.Status.Conditions, apimeta.ConditionReady); found != nil {
		return found
	}
	return &metav1.Condition{}
}

// assertReadyAfter asserts that the next version of the PostgreSQL that is Ready is newer than the
// Backup. All versions since an unready one are read.
func assertReadyAfter(t *testing.T, databases databaseclient.PostgreSQLInterface, unready *databasev1.PostgreSQL, backup *backupv1.Backup) {
	t.Helper()
	versions, err := databases.Watch(t.Context(), metav1.ListOptions{ResourceVersion: unready.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer versions.Stop()
	for event := range versions.ResultChan() {
		database, ok := event.Object.(*databasev1.PostgreSQL)
		if !ok {
			t.Fatalf("watch: %v", event.Object)
		}
		if readyOf(database).Status != metav1.ConditionTrue {
			continue
		}
		order, err := resourceversion.CompareResourceVersion(database.ResourceVersion, backup.ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		if order < 0 {
			t.Errorf("the PostgreSQL was Ready while its Backup was gone: %+v", database.Status.Conditions)
		}
		return
	}
	t.Error("the watch ended before the PostgreSQL was Ready")
}
