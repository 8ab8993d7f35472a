// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

var (
	backupResource     = backupv1.SchemeGroupVersion.WithResource("backups")
	postgreSQLResource = databasev1.SchemeGroupVersion.WithResource("postgresqls")
)

// lateSchedule is a schedule that a policy refuses.
const lateSchedule = "59 23 * * *"

// refuseUpdates has the API server refuse updates of a resource that break expression, as an update
// with the merge patch does.
func refuseUpdates(t *testing.T, namespace string, resource schema.GroupVersionResource, name, expression, patch string) {
	t.Helper()
	policy{
		name: resource.Resource + "-" + namespace, namespace: namespace,
		group: resource.Group, version: resource.Version, resource: resource.Resource,
		expression: expression, message: `"this change is not welcome here"`,
	}.apply(t, func(ctx context.Context) error {
		_, err := shared.Dynamic.Resource(resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// assertRefusedOnce asserts that the operator has read the live object once since then, to find out
// that the refused update was for this object.
func assertRefusedOnce(t *testing.T, since time.Time, namespace string, resource schema.GroupVersionResource, name string) {
	t.Helper()
	ofChild := func(e cluster.AuditEvent) bool {
		return cluster.ByOperator()(e) && e.Namespace == namespace && e.Resource == resource.Resource && e.Subresource == "" && e.Name == name
	}
	if err := shared.AwaitAuditQuiet(t.Context(), quiet, ofChild); err != nil {
		t.Fatal(err)
	}
	requests, err := shared.AuditRequests(since, ofChild)
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, r := range requests {
		sent = append(sent, fmt.Sprintf("%s %d", r.Verb, r.Code))
	}
	if got, want := strings.Join(sent, ", "), "patch 422, get 200"; got != want {
		t.Errorf("requests for %s %s are %s, want %s", resource.Resource, name, got, want)
	}
}

// TestPostgreSQLBackupThatAdmissionRefuses: a refused update of the Backup stalls the PostgreSQL.
func TestPostgreSQLBackupThatAdmissionRefuses(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, true)
	createKeys(t, d.namespace, "bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
	d.create(func(s *databasev1.PostgreSQLSpec) {
		s.Replicas = ptr.To(int32(1))
		s.Backup = &databasev1.PostgreSQLBackup{Enabled: true, Destination: &backupv1.Destination{Type: "s3", Bucket: "dumps", CredentialsSecret: "bucket"}}
	})
	d.awaitReady()
	d.settle(time.Now())
	refuseUpdates(t, d.namespace, backupResource, "db-backup",
		`object.spec.schedule != "`+lateSchedule+`"`, `{"spec":{"schedule":"`+lateSchedule+`"}}`)
	begin := time.Now()

	d.patch(`{"backup":{"schedule":"` + lateSchedule + `"}}`)

	stalled := meta.FindStatusCondition(d.await(apimeta.ConditionStalled, apimeta.ReasonRefused).Status.Conditions, apimeta.ConditionStalled)
	assertContains(t, "message", stalled.Message, `Backup "db-backup" was refused: `)
	assertContains(t, "message", stalled.Message, "this change is not welcome here")
	assertRefusedOnce(t, begin, d.namespace, backupResource, "db-backup")
	d.patch(`{"backup":{"schedule":"@daily"}}`)
	d.awaitReady()
}

// TestAppStackDatabaseThatAdmissionRefuses: a refused update of the PostgreSQL stalls the AppStack.
func TestAppStackDatabaseThatAdmissionRefuses(t *testing.T) {
	t.Parallel()
	s := newStacks(t)
	s.run()
	s.requests(time.Now())
	refuseUpdates(t, s.namespace, postgreSQLResource, "shop-db", `object.spec.version != "18"`, `{"spec":{"version":"18"}}`)
	begin := time.Now()

	s.change(`{"database":{"version":"18"}}`)

	stack := s.await(childv1alpha1.PhaseFailed)
	if reason := meta.FindStatusCondition(stack.Status.Conditions, apimeta.ConditionReady).Reason; reason != apimeta.ReasonRefused {
		t.Errorf("reason is %s", reason)
	}
	assertContains(t, "message", message(stack), `spec.database: PostgreSQL "shop-db" was refused: `)
	assertRefusedOnce(t, begin, s.namespace, postgreSQLResource, "shop-db")
	s.change(`{"database":{"version":"17"}}`)
	s.await(childv1alpha1.PhaseRunning)
}

// TestPlatformDatabaseThatAdmissionRefuses: a refused update of the PostgreSQL stalls the platform.
func TestPlatformDatabaseThatAdmissionRefuses(t *testing.T) {
	t.Parallel()
	s := newShops(t)
	s.run()
	s.requests(time.Now())
	refuseUpdates(t, s.namespace, postgreSQLResource, "shop-db", `object.spec.storage != "200Gi"`, `{"spec":{"storage":"200Gi"}}`)
	begin := time.Now()

	s.mustChange(`{"database":{"storage":"200Gi"}}`)

	s.await(childv1alpha1.PhaseFailed)
	s.assertContains(s.awaitReason(platformv1.ConditionDatabaseReady, apimeta.ReasonRefused), `spec.database: PostgreSQL "shop-db" was refused: `)
	assertRefusedOnce(t, begin, s.namespace, postgreSQLResource, "shop-db")
	s.mustChange(`{"database":{"storage":"10Gi"}}`)
	s.await(childv1alpha1.PhaseRunning)
}

// TestPlatformBackupThatAdmissionRefuses: a refused update of the Backup of a mysql stalls the
// platform.
func TestPlatformBackupThatAdmissionRefuses(t *testing.T) {
	t.Parallel()
	s := newShops(t)
	createKeys(t, s.namespace, "bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
	enabled := true
	s.run(func(spec *platformv1.EcommercePlatformSpec) {
		spec.Database.Type = platformv1.DatabaseMySQL
		spec.Database.Backup = &platformv1.PlatformBackup{
			Enabled: &enabled, Destination: &backupv1.Destination{Type: "s3", Bucket: "dumps", CredentialsSecret: "bucket"},
		}
	})
	s.requests(time.Now())
	refuseUpdates(t, s.namespace, backupResource, "shop-db-backup",
		`object.spec.schedule != "`+lateSchedule+`"`, `{"spec":{"schedule":"`+lateSchedule+`"}}`)
	begin := time.Now()

	s.mustChange(`{"database":{"backup":{"schedule":"` + lateSchedule + `"}}}`)

	s.await(childv1alpha1.PhaseFailed)
	s.assertContains(s.awaitReason(apimeta.ConditionReady, apimeta.ReasonRefused), `Backup "shop-db-backup" was refused: `)
	assertRefusedOnce(t, begin, s.namespace, backupResource, "shop-db-backup")
	s.mustChange(`{"database":{"backup":{"schedule":"@daily"}}}`)
	s.await(childv1alpha1.PhaseRunning)
}

const (
	// refusedByQuota is why a quota of no pods has the API server refuse pods.
	refusedByQuota = "is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"
	// adviceForQuota is the operator's advice.
	adviceForQuota = "; raise the ResourceQuota none, or lower what the pods request"
)

// TestPostgreSQLPodsThatQuotaRefuses: only events of the StatefulSet say why it has no pods.
func TestPostgreSQLPodsThatQuotaRefuses(t *testing.T) {
	t.Parallel()
	d := newDatabases(t, true)
	allow := shared.Forbid(t.Context(), t, d.namespace, "pods")

	d.create(func(s *databasev1.PostgreSQLSpec) { s.Replicas = ptr.To(int32(1)) })

	d.awaitObject("the message has the quota", func(found *databasev1.PostgreSQL) bool {
		ready := meta.FindStatusCondition(found.Status.Conditions, apimeta.ConditionReady)
		return ready != nil && strings.HasSuffix(ready.Message, ": pods "+refusedByQuota+adviceForQuota)
	})
	if err := allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.awaitReady()
}

// TestBackupPodsThatQuotaRefuses: only events of the Job say why it has no pod.
func TestBackupPodsThatQuotaRefuses(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.createSecrets()
	v.create("0 2 * * *")
	v.awaitReady()
	shared.Forbid(t.Context(), t, v.namespace, "pods")

	v.patch(`{"metadata": {"annotations": {"backup.example.com/run-now": "1"}}}`)

	found := v.await(apimeta.ConditionReady, backupv1.ReasonRunNotStarting)
	message := meta.FindStatusCondition(found.Status.Conditions, apimeta.ConditionReady).Message
	assertContains(t, "message", message, " has no pod: pods "+refusedByQuota+adviceForQuota)
}
