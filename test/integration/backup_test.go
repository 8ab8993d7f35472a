// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	backupclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/backup/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// vault is a namespace for one Backup.
type vault struct {
	*plain[*backupv1.Backup]
}

func newVault(t *testing.T) *vault {
	t.Helper()
	return &vault{newPlain[*backupv1.Backup](t, "orders", func(client *versioned.Clientset, namespace string) backupclient.BackupInterface {
		return client.BackupV1().Backups(namespace)
	}, "backup")}
}

// secretValue is the value of all keys of Secrets.
const secretValue = "never-shown"

// createKeys creates a Secret with these keys.
func createKeys(t *testing.T, namespace, name string, keys ...string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{}}
	for _, key := range keys {
		secret.StringData[key] = secretValue
	}
	if _, err := shared.Client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createSecrets creates the Secrets that the Backup names.
func (v *vault) createSecrets() {
	v.t.Helper()
	createKeys(v.t, v.namespace, "db", "username", "password")
	createKeys(v.t, v.namespace, "bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
}

func (v *vault) create(schedule string) *backupv1.Backup {
	v.t.Helper()
	return v.add(&backupv1.Backup{Spec: backupv1.BackupSpec{
		Source: backupv1.Source{Type: backupv1.SourcePostgreSQL, Connection: backupv1.Connection{
			Host: "shop-db", Database: "shop", CredentialsSecret: "db",
		}},
		Destination: backupv1.Destination{Type: backupv1.DestinationS3, Bucket: "backups", CredentialsSecret: "bucket"},
		Schedule:    schedule,
	}})
}

func (v *vault) cronJob() *batchv1.CronJob {
	v.t.Helper()
	found, err := shared.Client.BatchV1().CronJobs(v.namespace).Get(v.t.Context(), v.name+"-cronjob", metav1.GetOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
	return found
}

// TestBackupLife follows a Backup from its creation to its deletion, and counts the requests.
func TestBackupLife(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.createSecrets()

	begin := time.Now()
	v.create("0 2 * * *")
	v.awaitReady()
	assertRequests(t, func() map[string]int {
		requests := v.settle(begin)
		if requests["patch cronjobs"] == 2 { // The operator has seen the Secrets after the Backup.
			requests["patch cronjobs"]--
			requests["patch backups/status"]--
		}
		return requests
	}, map[string]int{"patch configmaps": 1, "patch cronjobs": 1, "patch backups/status": 1, "create events": 2})

	begin = time.Now()
	v.patch(`{"metadata": {"annotations": {"backup.example.com/run-now": "1"}}}`)
	backup := v.await(backupv1.ConditionLastRunSucceeded, backupv1.ReasonRunSucceeded)
	if backup.Status.LastSuccessfulTime == nil || backup.Status.LastHandledRunNow != "1" {
		t.Errorf("status is %+v", backup.Status)
	}
	v.assertRequests(begin, map[string]int{"create jobs": 1, "patch backups/status": 2})

	begin = time.Now()
	v.patch(`{"spec": {"suspend": true}}`)
	if suspended := v.await(backupv1.ConditionScheduled, backupv1.ReasonSuspended); suspended.Status.NextScheduleTime != nil {
		t.Errorf("status while suspended is %+v", suspended.Status)
	}
	if requests := v.settle(begin); requests["patch cronjobs"] != 1 || requests["patch configmaps"] != 0 {
		t.Errorf("requests of the change are %v", requests)
	}

	v.remove()
	cluster.Eventually(t.Context(), t, "children and Jobs are gone", func(ctx context.Context) (bool, error) {
		selected := metav1.ListOptions{LabelSelector: backupv1.LabelBackup}
		maps, err1 := shared.Client.CoreV1().ConfigMaps(v.namespace).List(ctx, selected)
		cronJobs, err2 := shared.Client.BatchV1().CronJobs(v.namespace).List(ctx, selected)
		jobs, err3 := shared.Client.BatchV1().Jobs(v.namespace).List(ctx, selected)
		if err := errors.Join(err1, err2, err3); err != nil {
			return false, err
		}
		return len(maps.Items)+len(cronJobs.Items)+len(jobs.Items) == 0, nil
	})
}

// TestBackupRunsBySchedule waits for a run that the controller of CronJobs starts.
func TestBackupRunsBySchedule(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.createSecrets()
	due := v.create("* * * * *").CreationTimestamp.Truncate(time.Minute).Add(time.Minute)

	cluster.Eventually(t.Context(), t, "a scheduled run succeeds", func(ctx context.Context) (bool, error) {
		backup, err := v.objects.Get(ctx, "orders", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s := backup.Status
		if s.LastScheduleTime == nil || s.LastSuccessfulTime == nil {
			return false, fmt.Errorf("status is %+v", s)
		}
		if s.LastScheduleTime.Before(&metav1.Time{Time: due}) || !s.NextScheduleTime.After(s.LastScheduleTime.Time) {
			return false, fmt.Errorf("the run of %v was started at %v, the next is at %v", due, s.LastScheduleTime, s.NextScheduleTime)
		}
		return true, nil
	})
	v.patch(`{"spec": {"suspend": true}}`)
}

// createGatedJob creates a Job of the CronJob, as the controller of CronJobs does. Its pods are not
// scheduled, so nothing runs them.
func (v *vault) createGatedJob(name string) {
	v.t.Helper()
	owner := v.cronJob()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: owner.Spec.JobTemplate.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		},
		Spec: *owner.Spec.JobTemplate.Spec.DeepCopy(),
	}
	job.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}}
	if _, err := shared.Client.BatchV1().Jobs(v.namespace).Create(v.t.Context(), job, metav1.CreateOptions{}); err != nil {
		v.t.Fatal(err)
	}
}

// failPod plays the kubelet when the container "upload" of a Job's pod fails.
func (v *vault) failPod(job string, code int32, message string) {
	v.t.Helper()
	pods := shared.Client.CoreV1().Pods(v.namespace)
	cluster.Eventually(v.t.Context(), v.t, "the pod fails", func(ctx context.Context) (bool, error) {
		found, err := pods.List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job})
		if err != nil || len(found.Items) == 0 {
			return false, err
		}
		pod := found.Items[0].DeepCopy()
		pod.Status.Phase = corev1.PodFailed
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "dump", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()},
		}}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "upload", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: message, FinishedAt: metav1.Now()},
		}}}
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err == nil, err
	})
}

// TestBackupWhoseBucketRefuses: the Job ends after the first pod, since a retry does not help.
func TestBackupWhoseBucketRefuses(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.createSecrets()
	v.create("0 2 * * *")
	v.awaitReady()
	v.createGatedJob("orders-1")
	v.settle(time.Now())
	begin := time.Now()

	v.failPod("orders-1", 20, "bucket backups refuses access: AccessDenied")

	backup := v.await(apimeta.ConditionReady, backupv1.ReasonDestinationRefused)
	message := meta.FindStatusCondition(backup.Status.Conditions, apimeta.ConditionStalled).Message
	if want := `spec.destination.credentialsSecret: bucket backups refuses access: AccessDenied: correct the keys in Secret "bucket"`; !strings.HasPrefix(message, want) {
		t.Errorf("message is %q, want it to begin with %q", message, want)
	}
	if failure := backup.Status.LastFailure; failure == nil || failure.Job != "orders-1" || failure.Reason != backupv1.ReasonDestinationRefused {
		t.Errorf("the failure is %+v", failure)
	}
	v.assertRequests(begin, map[string]int{"list pods": 1, "patch backups/status": 1, "create events": 1})

	v.patch(`{"metadata": {"annotations": {"backup.example.com/run-now": "again"}}}`)
	v.awaitReady()
	v.assertSecretsStay()
}

// assertSecretsStay asserts that no object but the Secrets has a value of a Secret.
func (v *vault) assertSecretsStay() {
	v.t.Helper()
	ctx, all, kube := v.t.Context(), metav1.ListOptions{}, shared.Client
	backups, err1 := v.client.BackupV1().Backups(v.namespace).List(ctx, all)
	cronJobs, err2 := kube.BatchV1().CronJobs(v.namespace).List(ctx, all)
	jobs, err3 := kube.BatchV1().Jobs(v.namespace).List(ctx, all)
	pods, err4 := kube.CoreV1().Pods(v.namespace).List(ctx, all)
	scripts, err5 := kube.CoreV1().ConfigMaps(v.namespace).List(ctx, all)
	events, err6 := kube.EventsV1().Events(v.namespace).List(ctx, all)
	encoded, err7 := json.Marshal([]any{backups, cronJobs, jobs, pods, scripts, events})
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		v.t.Fatal(err)
	}
	if !strings.Contains(string(encoded), "orders-1") || strings.Contains(string(encoded), secretValue) {
		v.t.Errorf("a value of a Secret is in another object: %s", encoded)
	}
}

func TestBackupWithoutSecrets(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	createKeys(v.t, v.namespace, "bucket", "AWS_ACCESS_KEY_ID")
	begin := time.Now()
	v.create("0 2 * * *")
	v.await(apimeta.ConditionReady, backupv1.ReasonSecretNotFound)

	createKeys(v.t, v.namespace, "db", "username", "password")

	backup := v.await(apimeta.ConditionReady, backupv1.ReasonKeyNotFound)
	want := `spec.destination.credentialsSecret: Secret "bucket" lacks AWS_SECRET_ACCESS_KEY: add what is missing`
	if ready := meta.FindStatusCondition(backup.Status.Conditions, apimeta.ConditionReady); ready.Message != want {
		t.Errorf("message is %q, want %q", ready.Message, want)
	}
	added := []byte(`{"stringData": {"AWS_SECRET_ACCESS_KEY": "never-shown"}}`)
	if _, err := shared.Client.CoreV1().Secrets(v.namespace).Patch(t.Context(), "bucket", types.MergePatchType, added, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	v.awaitReady()
	removed := []byte(`{"data": {"AWS_ACCESS_KEY_ID": null}}`)
	if _, err := shared.Client.CoreV1().Secrets(v.namespace).Patch(t.Context(), "bucket", types.MergePatchType, removed, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	v.await(apimeta.ConditionReady, backupv1.ReasonKeyNotFound)
	for request := range v.settle(begin) {
		if strings.Contains(request, "secrets") {
			t.Errorf("the operator sent %q, want no request for a Secret", request)
		}
	}
}

// TestBackupWithAppliedSecret: the keys of a Secret that was applied as stringData are known, too.
func TestBackupWithAppliedSecret(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	createKeys(v.t, v.namespace, "bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
	applied := []byte(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "stringData": {"username": "a", "password": "b"}}`)
	if _, err := shared.Client.CoreV1().Secrets(v.namespace).Patch(
		t.Context(), "db", types.ApplyPatchType, applied, metav1.PatchOptions{FieldManager: "theirs"}); err != nil {
		t.Fatal(err)
	}

	v.create("0 2 * * *")

	v.awaitReady()
}

func TestBackupWithInvalidSchedule(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.createSecrets()
	begin := time.Now()

	v.create("every night")

	v.await(apimeta.ConditionStalled, backupv1.ReasonInvalidSchedule)
	v.assertRequests(begin, map[string]int{"patch backups/status": 1, "create events": 1})
	v.patch(`{"spec": {"schedule": "@daily", "timeZone": "Europe/Berlin"}}`)
	v.awaitReady()
	if spec := v.cronJob().Spec; spec.Schedule != "@daily" || *spec.TimeZone != "Europe/Berlin" {
		t.Errorf("the CronJob has schedule %q in time zone %q", spec.Schedule, *spec.TimeZone)
	}
}
