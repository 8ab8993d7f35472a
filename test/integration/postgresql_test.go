// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	databaseclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/database/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// databases is a namespace for the PostgreSQL "db", with a StorageClass of its own and a volume for
// each of three servers.
type databases struct {
	*plain[*databasev1.PostgreSQL]

	class string
}

func newDatabases(t *testing.T, expandable bool) *databases {
	t.Helper()
	d := &databases{plain: newPlain[*databasev1.PostgreSQL](t, "db", func(client *versioned.Clientset, namespace string) databaseclient.PostgreSQLInterface {
		return client.DatabaseV1().PostgreSQLs(namespace)
	}, "postgresql", "backup")}
	d.class = d.namespace
	_, err := shared.Client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: d.class}, Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &expandable,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Client.StorageV1().StorageClasses().Delete(context.WithoutCancel(t.Context()), d.class, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	for ordinal := range 3 {
		d.provision(ordinal)
	}
	return d
}

// provision creates a volume for a server, which a claim that is deleted leaves behind. No
// provisioner runs here.
func (d *databases) provision(ordinal int) {
	d.t.Helper()
	name := fmt.Sprintf("%s-%d", d.namespace, ordinal)
	_, err := shared.Client.CoreV1().PersistentVolumes().Create(d.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: d.class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: d.namespace, Name: claimOf(ordinal)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/simulated"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := shared.Client.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			d.t.Error(err)
		}
	})
}

func claimOf(ordinal int) string { return fmt.Sprintf("data-db-%d", ordinal) }

func (d *databases) create(change func(*databasev1.PostgreSQLSpec)) {
	d.t.Helper()
	object := &databasev1.PostgreSQL{Spec: databasev1.PostgreSQLSpec{
		Version: "16", Storage: "1Gi", Replicas: ptr.To(int32(2)), StorageClassName: &d.class,
	}}
	change(&object.Spec)
	d.add(object)
}

// patch changes the spec.
func (d *databases) patch(spec string) {
	d.t.Helper()
	d.plain.patch(`{"spec":` + spec + `}`)
}

// remove deletes the PostgreSQL, and waits until its children are gone.
func (d *databases) remove() {
	d.t.Helper()
	d.plain.remove()
	cluster.Eventually(d.t.Context(), d.t, "the StatefulSet and its pods are gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.AppsV1().StatefulSets(d.namespace).Get(ctx, "db", metav1.GetOptions{})
		pods, listErr := shared.Client.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err) && listErr == nil && len(pods.Items) == 0, listErr
	})
}

func (d *databases) secret() *corev1.Secret {
	d.t.Helper()
	found, err := shared.Client.CoreV1().Secrets(d.namespace).Get(d.t.Context(), "db-credentials", metav1.GetOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

// TestPostgreSQLLife follows a PostgreSQL from its creation to its second deletion, and counts the
// requests.
func TestPostgreSQLLife(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, true)

	begin := time.Now()
	d.create(func(*databasev1.PostgreSQLSpec) {})
	ready := d.awaitReady()
	created := d.settle(begin)
	assertStatusWrites(t, created, "postgresqls", 2, begin)
	if want := map[string]int{
		"patch postgresqls": 1, "create secrets": 1, "patch services": 3, "patch configmaps": 2, "patch statefulsets": 1,
		"patch poddisruptionbudgets": 1, "create events": 2,
	}; !maps.Equal(created, want) {
		t.Errorf("requests of the creation, without status, are %v, want %v", created, want)
	}
	if ready.Status.ReadyReplicas != 2 || ready.Status.Phase != databasev1.PhaseRunning ||
		ready.Status.Endpoint != "db."+d.namespace+".svc.cluster.local:5432" {
		t.Errorf("status is %+v", ready.Status)
	}

	before := d.secret()
	d.remove()
	if _, err := shared.Client.CoreV1().PersistentVolumeClaims(d.namespace).Get(t.Context(), claimOf(1), metav1.GetOptions{}); err != nil {
		t.Errorf("a volume did not outlive the deletion: %v", err)
	}
	begin = time.Now()
	d.create(func(s *databasev1.PostgreSQLSpec) { s.DeletionPolicy = databasev1.DeletionPolicyDelete })
	d.awaitReady()
	if requests := d.settle(begin); requests["create secrets"]+requests["patch secrets"]+requests["get secrets"] > 0 {
		t.Errorf("requests of the second creation are %v", requests)
	}
	if after := d.secret(); after.UID != before.UID || !bytes.Equal(after.Data["password"], before.Data["password"]) {
		t.Error("the second PostgreSQL has another password")
	}

	d.patch(`{"replicas":1}`)
	d.awaitReady()
	d.remove()
	cluster.Eventually(t.Context(), t, "the volumes and the credentials are gone", func(ctx context.Context) (bool, error) {
		claims, err1 := shared.Client.CoreV1().PersistentVolumeClaims(d.namespace).List(ctx, metav1.ListOptions{})
		_, err2 := shared.Client.CoreV1().Secrets(d.namespace).Get(ctx, "db-credentials", metav1.GetOptions{})
		return err1 == nil && len(claims.Items) == 0 && apierrors.IsNotFound(err2), err1
	})
}

func TestPostgreSQLStorageThatCannotGrow(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, false)
	d.create(func(s *databasev1.PostgreSQLSpec) { s.Replicas = ptr.To(int32(1)) })
	d.awaitReady()

	d.patch(`{"storage":"2Gi"}`)

	refused := d.await("Stalled", databasev1.ReasonStorageNotExpandable)
	if message := meta.FindStatusCondition(refused.Status.Conditions, "Stalled").Message; !strings.Contains(message, "allow expansion in the StorageClass") {
		t.Errorf("message is %q", message)
	}
	_, err := shared.Client.StorageV1().StorageClasses().Patch(t.Context(), d.class, types.MergePatchType, []byte(`{"allowVolumeExpansion":true}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.patch(`{"storage":"3Gi"}`)
	d.awaitReady()
	claim, err := shared.Client.CoreV1().PersistentVolumeClaims(d.namespace).Get(t.Context(), claimOf(0), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "3Gi" {
		t.Errorf("size of the claim is %s, want 3Gi", size.String())
	}

	if shared.Minor() < 32 {
		return // The API server accepts no smaller request yet.
	}
	// The API server accepted a size that the storage cannot provide. A part of it is taken back.
	_, err = shared.Client.CoreV1().PersistentVolumeClaims(d.namespace).Patch(t.Context(), claimOf(0), types.MergePatchType,
		[]byte(`{"status":{"capacity":{"storage":"1Gi"},"conditions":[{"type":"ControllerResizeError","status":"True","message":"no space"}]}}`),
		metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	failed := d.await("Stalled", databasev1.ReasonStorageNotExpandable)
	if message := meta.FindStatusCondition(failed.Status.Conditions, "Stalled").Message; !strings.Contains(message, "could not be enlarged to 3Gi: no space") {
		t.Errorf("message is %q", message)
	}
	d.patch(`{"storage":"2Gi"}`)
	cluster.Eventually(t.Context(), t, "the claim requests less", func(ctx context.Context) (bool, error) {
		claim, err := shared.Client.CoreV1().PersistentVolumeClaims(d.namespace).Get(ctx, claimOf(0), metav1.GetOptions{})
		return err == nil && claim.Spec.Resources.Requests.Storage().String() == "2Gi", err
	})
}

func TestPostgreSQLSecretOfUser(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, true)
	secrets := shared.Client.CoreV1().Secrets(d.namespace)
	_, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "db-credentials", Labels: map[string]string{databasev1.LabelPostgreSQL: "db"}},
		Data:       map[string][]byte{"username": []byte("shop")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	d.create(func(s *databasev1.PostgreSQLSpec) { s.Replicas = ptr.To(int32(1)) })

	invalid := d.await("Stalled", databasev1.ReasonCredentialsInvalid)
	if message := meta.FindStatusCondition(invalid.Status.Conditions, "Stalled").Message; message != `Secret "db-credentials", key "password": is missing: add it` {
		t.Errorf("message is %q", message)
	}
	_, err = secrets.Patch(t.Context(), "db-credentials", types.MergePatchType, []byte(`{"stringData":{"password":"theirs"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.awaitReady()
	if secret := d.secret(); string(secret.Data["username"]) != "shop" || string(secret.Data["password"]) != "theirs" || len(secret.Data["replication-password"]) == 0 {
		t.Errorf("keys of the Secret are %v", maps.Keys(secret.Data))
	}
	if err := secrets.Delete(t.Context(), "db-credentials", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.await("Stalled", databasev1.ReasonCredentialsMissing)
}

func TestPostgreSQLBackup(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, true)
	backups := d.client.BackupV1().Backups(d.namespace)
	createKeys(t, d.namespace, "bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

	d.create(func(s *databasev1.PostgreSQLSpec) {
		s.Replicas = ptr.To(int32(1))
		s.Backup = &databasev1.PostgreSQLBackup{Enabled: true, Destination: &backupv1.Destination{Type: "s3", Bucket: "dumps", CredentialsSecret: "bucket"}}
	})

	d.awaitReady()
	cluster.Eventually(t.Context(), t, "the Backup exists", func(ctx context.Context) (bool, error) {
		backup, err := backups.Get(ctx, "db-backup", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if backup.Spec.Source.Connection.CredentialsSecret != "db-credentials" || backup.Spec.Schedule != "0 2 * * *" || backup.Spec.Retention != "30d" {
			t.Errorf("spec of the Backup is %+v", backup.Spec)
		}
		return true, nil
	})
	d.patch(`{"backup":{"enabled":false}}`)
	d.await(databasev1.ConditionBackupConfigured, databasev1.ReasonBackupDisabled)
	cluster.Eventually(t.Context(), t, "the Backup is gone", func(ctx context.Context) (bool, error) {
		_, err := backups.Get(ctx, "db-backup", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	theirs := &backupv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "db-backup"}, Spec: backupv1.BackupSpec{
		Schedule: "@daily", Destination: backupv1.Destination{Type: "s3", Bucket: "theirs", CredentialsSecret: "theirs"},
		Source: backupv1.Source{Type: "mysql", Connection: backupv1.Connection{Host: "theirs", Database: "theirs", CredentialsSecret: "theirs"}},
	}}
	if _, err := backups.Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.patch(`{"backup":{"enabled":true}}`)
	d.await("Stalled", apimeta.ReasonOwnershipConflict)
}

func TestPostgreSQLLeavesObjectsOfOthersAlone(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, true)
	labels := map[string]string{"app": "theirs"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	set, err1 := shared.Client.AppsV1().StatefulSets(d.namespace).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
	}, metav1.CreateOptions{})
	budget, err2 := shared.Client.PolicyV1().PodDisruptionBudgets(d.namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}

	d.create(func(*databasev1.PostgreSQLSpec) {})

	d.await("Stalled", apimeta.ReasonOwnershipConflict)
	liveSet, err1 := shared.Client.AppsV1().StatefulSets(d.namespace).Get(t.Context(), "db", metav1.GetOptions{})
	liveBudget, err2 := shared.Client.PolicyV1().PodDisruptionBudgets(d.namespace).Get(t.Context(), "db", metav1.GetOptions{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if liveSet.Generation != set.Generation || liveBudget.Generation != budget.Generation ||
		len(liveSet.OwnerReferences)+len(liveBudget.OwnerReferences) > 0 {
		t.Error("objects of others were changed")
	}
}
