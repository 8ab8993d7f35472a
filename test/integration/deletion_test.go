// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestDeletionLeavesOnlyAuditRecord(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	last := ns.AwaitReady("web")
	ns.Delete("web")
	gone := ns.AwaitGone("web").App

	assertNothingInstalled(t, ns, "web")
	records := ns.AuditRecords("web")
	if len(records) != 1 {
		t.Fatalf("%d audit records", len(records))
	}
	record := records[0]
	if want := fmt.Sprintf("%s-web-%d", ns.Name, gone.DeletionTimestamp.Unix()); record.Name != want {
		t.Errorf("the record's name is %s, want %s", record.Name, want)
	}
	if want := map[string]string{
		"demo.example.com/source-namespace": ns.Name, "demo.example.com/source-name": "web",
	}; !cmp.Equal(want, record.Labels) {
		t.Errorf("labels: %s", cmp.Diff(want, record.Labels))
	}
	if got, want := record.Data["deleted-at"], gone.DeletionTimestamp.UTC().Format(time.RFC3339); got != want {
		t.Errorf("deleted-at is %s, want %s", got, want)
	}
	var spec v1alpha1.DemoAppSpec
	if err := json.Unmarshal([]byte(record.Data["spec"]), &spec); err != nil {
		t.Fatal(err)
	}
	want := last.Spec.DeepCopy()
	want.APIKey = "REDACTED"
	if diff := cmp.Diff(*want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	var status v1alpha1.DemoAppStatus
	if err := json.Unmarshal([]byte(record.Data["status"]), &status); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(last.Status, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if len(record.Data) != 3 {
		t.Errorf("the record has %d keys", len(record.Data))
	}
	ns.AwaitEvent("web", "Uninstalled", record.Name)
}

// TestNamespaceIsDeletedWithDemoAppsInIt waits for the namespace controller, which deletes all
// kinds one after another and retries with a delay while finalizers are left.
func TestNamespaceIsDeletedWithDemoAppsInIt(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	names := []string{"one", "two", "three", "waiting"}
	ns.Create(apps.Waiting("waiting", "missing"))
	for _, name := range names[:3] {
		// The deletion of the namespace would wait for the end of pods.
		ns.Create(apps.WithoutPods(name))
	}
	for _, name := range names[:3] {
		ns.AwaitReady(name)
	}
	if err := shared.Client.CoreV1().Namespaces().Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		ns.AwaitGone(name)
	}
	cluster.Eventually(t.Context(), t, "namespace gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.CoreV1().Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	for _, name := range names {
		if records := ns.AuditRecords(name); len(records) != 1 {
			t.Errorf("%s: %d audit records", name, len(records))
		}
	}
}
