// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// deleting returns a world whose app "a" is deployed and being deleted.
func deleting(t *testing.T, change ...func(*v1alpha1.DemoApp)) *world {
	t.Helper()
	w := deployed(t, change...)
	w.delete("a")
	return w
}

func (w *world) makeAuditNamespace() {
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: auditNamespace}}
	_, err := w.kube.CoreV1().Namespaces().Create(w.t.Context(), namespace, metav1.CreateOptions{})
	expect.NoError(w.t, err)
}

func TestDeletion(t *testing.T) {
	w := deleting(t)
	w.makeAuditNamespace()
	app := w.app("a")
	name := fmt.Sprintf("ns-a-%d", app.DeletionTimestamp.Unix())
	result := w.passes("a", controller.SpecChange)
	expect.Equal(t, "steps", []string{"create configmaps", "uninstall a", "patch demoapps a"}, w.calls.Take())
	expect.Equal(t, "timeout", helm.DefaultTimeout, w.engine.UninstallTimeout)
	expect.Equal(t, "requeue after", time.Duration(0), result.RequeueAfter)
	expect.Equal(t, "events", []string{
		"a Normal Uninstalled Delete Uninstalled release a; the audit record is demoapp-audit/" + name,
	}, w.recorder.Take())
	if w.app("a") != nil {
		t.Error("the app still exists")
	}
	record, ok := w.records()[name]
	if !ok {
		t.Fatalf("no record %s in %v", name, slices.Collect(maps.Keys(w.records())))
	}
	expect.Equal(t, "time", app.DeletionTimestamp.UTC().Format(time.RFC3339), record.Data["deleted-at"])
	expect.Contains(t, "status in the record", record.Data["status"], `"deployedRelease":{"name":"a","revision":1,`)
	expect.Contains(t, "spec in the record", record.Data["spec"], `"message":"hello"`)

	// The cache may still contain the app.
	_, err := w.latePass("a", controller.HealthChange)
	expect.NoError(t, err)
	expect.Equal(t, "requests while the cache is stale", []string(nil), w.calls.Take())
	w.passes("a", controller.Deleted)
	expect.Equal(t, "requests in the end", []string(nil), w.calls.Take())
	expect.Equal(t, "events in the end", []string(nil), w.recorder.Take())
	expect.Equal(t, "releases passed to Forget", []cache.ObjectName{keyOf("a")}, w.engine.Forgotten)

	created := w.create(newApp("a"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests for a successor", []string{"patch demoapps a", "Install a NotInstalled", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "owner of the successor's release", created.UID, w.engine.Desired.Owner.UID)
}

// TestOrphanLetsReleaseGo: nothing of an app that is deleted with the propagation policy Orphan is
// uninstalled. The audit record and the event say so.
func TestOrphanLetsReleaseGo(t *testing.T) {
	tests := map[string]func(w *world){
		"by the finalizer": func(w *world) {
			w.change("a", func(app *v1alpha1.DemoApp) { app.Finalizers = append(app.Finalizers, metav1.FinalizerOrphanDependents) })
		},
		"by the lost owners": func(w *world) { w.engine.IsOrphaned = true },
	}
	for name, orphan := range tests {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)
			w.makeAuditNamespace()
			orphan(w)
			w.delete("a")

			w.passes("a", controller.SpecChange)

			expect.Equal(t, "steps", []string{"create configmaps", "let go a", "patch demoapps a"}, w.calls.Take())
			record := onlyKey(t, w.records())
			expect.Equal(t, "events", []string{
				"a Normal Orphaned Delete Kept release a and its objects, because the propagation policy of the deletion is Orphan; the audit record is demoapp-audit/" + record,
			}, w.recorder.Take())
			expect.Equal(t, "policy in the record", "Orphan", w.records()[record].Data["propagation-policy"])
		})
	}
}

// TestLetGoWaits: a release that cannot be let go holds the deletion.
func TestLetGoWaits(t *testing.T) {
	w := deployed(t)
	w.makeAuditNamespace()
	w.engine.LetGoErr = errPlain
	w.change("a", func(app *v1alpha1.DemoApp) { app.Finalizers = append(app.Finalizers, metav1.FinalizerOrphanDependents) })
	w.delete("a")

	_, err := w.pass("a", controller.SpecChange)

	if !errors.Is(err, errPlain) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "Ready", "False UninstallFailed", w.conditions("a")["Ready"])
	expect.Contains(t, "message", w.message("a", "Ready"), "Deletion waits: ")
}

// passesUnchecked makes a pass over an app that has no conditions yet.
func (w *world) passesUnchecked(name string, why controller.Reason) {
	w.t.Helper()
	w.sync()
	w.calls.Take()
	_, err := w.controller.Reconcile(w.t.Context(), keyOf(name), why)
	expect.NoError(w.t, err)
}

// TestAuditRecordOfALaterProcess: a new process finds only the report of the last one about the
// deletion.
func TestAuditRecordOfALaterProcess(t *testing.T) {
	w := deleting(t)
	w.makeAuditNamespace()
	w.auditErr = errPlain
	_, err := w.pass("a", controller.SpecChange)
	if !errors.Is(err, errPlain) {
		t.Errorf("error is %v", err)
	}
	w.start(testChart(t, "1.0.0"))
	w.auditErr = nil

	w.passes("a", controller.SpecChange)

	status := w.records()[onlyKey(t, w.records())].Data["status"]
	expect.Contains(t, "status in the record", status, `"reason":"InstallSucceeded"`)
	if strings.Contains(status, v1alpha1.ReasonAuditFailed) {
		t.Errorf("the record has the operator's own trouble: %s", status)
	}
}

func TestDeletionCreatesAuditNamespace(t *testing.T) {
	tests := []struct {
		name string
		err  error
		fail bool
	}{
		{"missing", nil, false},
		{"created by another replica and deleted", apierrors.NewAlreadyExists(corev1.Resource("namespaces"), auditNamespace), true},
		{"forbidden", apierrors.NewForbidden(corev1.Resource("namespaces"), auditNamespace, errPlain), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := deleting(t)
			w.namespaceErr = test.err
			_, err := w.pass("a", controller.SpecChange)
			if test.fail != (err != nil) {
				t.Errorf("error is %v", err)
			}
			calls := w.calls.Take()
			expect.Equal(t, "first requests", []string{"create configmaps", "create namespaces"}, calls[:2])
			w.namespaceErr = nil
			_, err = w.pass("a", controller.SpecChange|controller.Retry)
			expect.NoError(t, err)
			expect.Equal(t, "records", 1, len(w.records()))
			if w.app("a") != nil {
				t.Error("the app still exists")
			}
		})
	}
}

func TestDeletionWaitsForAuditAndUninstall(t *testing.T) {
	w := deleting(t)
	w.makeAuditNamespace()
	w.auditErr = apierrors.NewForbidden(corev1.Resource("configmaps"), "x", fmt.Errorf("quota of %s", plainKey))
	for range 3 {
		_, err := w.pass("a", controller.SpecChange)
		if !apierrors.IsForbidden(err) || controller.IsTerminal(err) {
			t.Errorf("error is %v", err)
		}
	}
	expect.Equal(t, "requests of a retry", []string{"create configmaps"}, w.calls.Take())
	expect.Equal(t, "Ready", "False AuditFailed", w.conditions("a")["Ready"])
	expect.Equal(t, "Reconciling", "True AuditFailed", w.conditions("a")["Reconciling"])
	expect.Contains(t, "message", w.message("a", apimeta.ConditionReady), "Deletion waits: write audit record demoapp-audit/ns-a-")
	events := w.recorder.Take()
	if len(events) != 1 {
		t.Fatalf("events are %v", events)
	}
	expect.Contains(t, "event", events[0], "a Warning AuditFailed Reconcile Deletion waits: write audit record")

	w.auditErr = nil
	w.engine.UninstallErr = errPlain
	for range 2 {
		_, err := w.pass("a", controller.SpecChange|controller.Retry)
		if !errors.Is(err, errPlain) {
			t.Errorf("error is %v", err)
		}
	}
	found := "get configmaps " + onlyKey(t, w.records())
	expect.Contains(t, "status in the record", w.records()[onlyKey(t, w.records())].Data["status"], `"reason":"Healthy"`)
	expect.Equal(t, "requests of a retry", []string{"create configmaps", found, "uninstall a"}, w.calls.Take())
	expect.Equal(t, "Ready", "False UninstallFailed", w.conditions("a")["Ready"])
	expect.Equal(t, "Reconciling", "True UninstallFailed", w.conditions("a")["Reconciling"])
	expect.Equal(t, "number of events", 2, len(w.recorder.Take()))

	w.engine.UninstallErr = nil
	w.passes("a", controller.SpecChange|controller.Retry)
	expect.Equal(t, "requests in the end", []string{"create configmaps", found, "uninstall a", "patch demoapps a"}, w.calls.Take())
	expect.Equal(t, "records", 1, len(w.records()))
	expect.Equal(t, "events", []string{"a Normal Uninstalled Delete Uninstalled release a"}, w.recorder.Take())
	if w.app("a") != nil {
		t.Error("the app still exists")
	}
}

// TestDeletionNamesWhatIsLeft: the event and the audit record name the objects that the uninstall left.
func TestDeletionNamesWhatIsLeft(t *testing.T) {
	w := deleting(t)
	w.makeAuditNamespace()
	w.engine.Left = []helm.Leftover{{
		Object: helm.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "a"}, Reason: "its resource policy keeps it",
	}}
	w.passes("a", controller.SpecChange)
	const left = "ConfigMap ns/a (its resource policy keeps it)"
	name := onlyKey(t, w.records())
	expect.Equal(t, "record", left, w.records()[name].Data["left-behind"])
	expect.Equal(t, "events", []string{
		"a Normal Uninstalled Delete Uninstalled release a; left behind: " + left + "; the audit record is demoapp-audit/" + name,
	}, w.recorder.Take())
	if w.app("a") != nil {
		t.Error("the app still exists")
	}
}

func TestAuditAndStatusFailure(t *testing.T) {
	w := deleting(t)
	w.makeAuditNamespace()
	w.auditErr = errPlain
	w.statusErr = apierrors.NewInternalError(errors.New("no leader"))
	w.sync()
	_, err := w.controller.Reconcile(t.Context(), keyOf("a"), controller.SpecChange)
	if !errors.Is(err, errPlain) || !apierrors.IsInternalError(err) {
		t.Errorf("error is %v", err)
	}
}

// onlyKey returns the name of the only audit record.
func onlyKey(t *testing.T, records map[string]corev1.ConfigMap) string {
	t.Helper()
	names := slices.Collect(maps.Keys(records))
	if len(names) != 1 {
		t.Fatalf("records are %v", names)
	}
	return names[0]
}
