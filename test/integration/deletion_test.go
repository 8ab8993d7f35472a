// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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

// TestDeletionDespiteFinalizer: the API server deletes an object whose finalizer was added after
// the deletion began, see https://github.com/kubernetes/kubernetes/issues/77988. Here, it calls an
// admission webhook meanwhile. The release is installed by then, and is uninstalled as usual.
func TestDeletionDespiteFinalizer(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	deleting, installed := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(deleting) })
	callWebhook(t, ns, func(ctx context.Context, operation admissionv1.Operation) {
		switch operation {
		case admissionv1.Update:
			await(ctx, deleting) // The finalizer.
		case admissionv1.Delete:
			begin()
			await(ctx, installed)
		}
	})

	ns.Create(apps.Named("web"))
	deletion := make(chan error, 1)
	go func() { deletion <- ns.Demo.Delete(t.Context(), "web", metav1.DeleteOptions{}) }()
	ns.AwaitReady("web")
	close(installed)
	if err := <-deletion; err != nil {
		t.Fatal(err)
	}

	if last := ns.AwaitGone("web").App; last.DeletionTimestamp != nil || len(last.Finalizers) != 1 {
		t.Fatalf("the finalizer held the deletion: %+v", last.ObjectMeta)
	}
	ns.AwaitEvent("web", "Uninstalled", "the audit record is")
	assertNothingInstalled(t, ns, "web")
	if records := ns.AuditRecords("web"); len(records) != 1 {
		t.Errorf("%d audit records", len(records))
	}
}

func await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-done:
	}
}

// callWebhook makes the API server call f before each change of a DemoApp of a namespace, except
// its status. Dry runs are denied.
func callWebhook(t *testing.T, ns *apps.Namespace, f func(context.Context, admissionv1.Operation)) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		f(r.Context(), review.Request.Operation)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if ptr.Deref(review.Request.DryRun, false) {
			review.Response.Allowed = false
			review.Response.Result = &metav1.Status{Code: http.StatusForbidden}
		}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	registerWebhook(t, ns, admissionregistrationv1.ValidatingWebhook{
		Name: "slow.example.com", TimeoutSeconds: ptr.To[int32](30),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
	}, admissionregistrationv1.Rule{APIGroups: []string{v1alpha1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"demoapps"}})
	cluster.Eventually(t.Context(), t, "webhook in force", func(ctx context.Context) (bool, error) {
		_, err := ns.Demo.Create(ctx, apps.Named("probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err), nil
	})
}
