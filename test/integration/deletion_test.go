// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
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
	ns.AwaitEvent("web", "Audited", record.Name)
}

func TestDeletionOrder(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	ns.AwaitQuiet(quiet)
	begin := time.Now()
	ns.Delete("web")
	ns.AwaitGone("web")
	ns.AwaitQuiet(quiet)

	requests := ns.Requests(begin)
	requests = slices.DeleteFunc(requests, func(request cluster.AuditEvent) bool {
		return request.Resource == "events" || request.Code == 404 && request.Namespace == apps.AuditNamespace
	})
	steps := make([][]cluster.AuditEvent, 4)
	for _, request := range requests {
		switch {
		case request.Namespace == apps.AuditNamespace && request.Verb == "create":
			steps[0] = append(steps[0], request)
		case request.Verb == "delete":
			steps[1] = append(steps[1], request)
		case request.Verb == "deletecollection" && request.Resource == "secrets":
			steps[2] = append(steps[2], request)
		case request.Verb == "patch" && request.Resource == "demoapps" && request.Subresource == "":
			steps[3] = append(steps[3], request)
		}
	}
	for i, count := range []int{1, 4, 1, 1} {
		if len(steps[i]) != count {
			t.Fatalf("step %d consists of %d requests, want %d:\n%s", i+1, len(steps[i]), count, apps.Describe(requests))
		}
	}
	for i := range steps[1:] {
		if !completed(steps[i]).Before(received(steps[i+1])) {
			t.Errorf("step %d began before step %d had ended:\n%s", i+2, i+1, apps.Describe(requests))
		}
	}
}

func completed(step []cluster.AuditEvent) time.Time {
	return slices.MaxFunc(step, func(a, b cluster.AuditEvent) int { return a.Completed.Compare(b.Completed) }).Completed
}

func received(step []cluster.AuditEvent) time.Time {
	return slices.MinFunc(step, func(a, b cluster.AuditEvent) int { return a.Received.Compare(b.Received) }).Received
}

// TestLongestNames uses a namespace and a name of the greatest length.
func TestLongestNames(t *testing.T) {
	t.Parallel()
	short := shared.Namespace(t)
	long := short + strings.Repeat("x", 63-len(short))
	ns := newNamespaceNamed(t, long)
	name := "w" + strings.Repeat("e", 51) + "b"
	ns.Create(apps.Named(name))
	app := ns.Await(name, "deployed", func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, "")
	})
	if want := "http://" + name + "." + long + ".svc"; app.Status.URL != want {
		t.Errorf("url is %s, want %s", app.Status.URL, want)
	}
	ns.Delete(name)
	gone := ns.AwaitGone(name).App
	records := ns.AuditRecords(name)
	if len(records) != 1 {
		t.Fatalf("%d audit records", len(records))
	}
	if want := fmt.Sprintf("%s-%s-%d", long, name, gone.DeletionTimestamp.Unix()); records[0].Name != want {
		t.Errorf("the record's name is %s, want %s", records[0].Name, want)
	}
}

// newNamespaceNamed is newNamespace with a given name.
func newNamespaceNamed(t *testing.T, name string) *apps.Namespace {
	t.Helper()
	namespaces := shared.Client.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := namespaces.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	ns := apps.In(t, shared, name)
	showLogOnFailure(t, name)
	return ns
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
