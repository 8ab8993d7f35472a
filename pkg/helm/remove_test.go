// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/fakeapi"
)

func withFinalizer(names ...string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) { object.SetFinalizers(names) }
}

func withoutMarks(object *unstructured.Unstructured) {
	object.SetLabels(nil)
	object.SetAnnotations(nil)
}

const operatorDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: operator}
spec:
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec: {containers: [{name: main, image: operator}]}
`

// operatorAndThing is a release of an operator and a custom resource of its kind.
func operatorAndThing(t *testing.T) Release {
	t.Helper()
	return made(t, map[string]string{
		"templates/operator.yaml": operatorDeployment,
		"templates/config.yaml":   configMap("config", "1"),
		"templates/thing.yaml":    "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: thing}\n",
		"templates/webhook.yaml":  "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: things}\n",
	})
}

// installOperator installs the release, and the operator adds its finalizer.
func (f *fixture) installOperator(desired Release) {
	f.t.Helper()
	f.serveThings(true)
	f.must(desired, ActionInstall, CauseNotInstalled)
	f.Edit("Thing", "default/thing", "operator", withFinalizer("example.com/cleanup"))
	synctest.Wait()
	f.TakeRequests()
}

// deletes returns the deletions since the last call.
func (f *fixture) deletes() []string {
	var deletes []string
	for _, request := range f.TakeRequests() {
		if strings.HasPrefix(request, "delete ") {
			deletes = append(deletes, strings.TrimPrefix(request, "delete "))
		}
	}
	return deletes
}

// TestCustomResourcesAreRemovedFirst: the workload that removes the finalizer of a custom resource is
// deleted after it.
func TestCustomResourcesAreRemovedFirst(t *testing.T) {
	tests := map[string]func(f *fixture) error{
		"uninstall": func(f *fixture) error { return f.tryUninstall(operatorAndThing(f.t)) },
		"uninstall without records": func(f *fixture) error {
			f.Remove("Secret", "default/sh.helm.release.v1.web.v1")
			synctest.Wait()
			return f.tryUninstall(operatorAndThing(f.t))
		},
		"upgrade without them": func(f *fixture) error {
			_, err := f.reconcile(made(f.t, map[string]string{"templates/other.yaml": configMap("other", "1")}))
			return err
		},
	}
	for name, remove := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				after := []string{"deployments default/operator", "configmaps default/config"}
				if name == "upgrade without them" {
					slices.Reverse(after) // As in the chart.
				}
				f.installOperator(operatorAndThing(t))
				ended := make(chan error, 1)
				go func() { ended <- remove(f) }()
				<-time.After(time.Minute)
				synctest.Wait()
				first := []string{"validatingwebhookconfigurations things", "things default/thing"}
				if diff := cmp.Diff(first, f.deletes()); diff != "" {
					t.Errorf("deleted while the custom resource waits (-want +got):\n%s", diff)
				}
				f.Edit("Thing", "default/thing", "operator", withFinalizer())
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(after, f.deletes()); diff != "" {
					t.Errorf("deleted after it (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestWaitForCustomResources: the wait frees the caller and names the object with its finalizers. It
// is bounded, also over restarts, and the uninstall then names the objects that it leaves.
func TestWaitForCustomResources(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(map[bool]string{false: "in one process", true: "after a restart"}[restarts], func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				desired := operatorAndThing(t)
				f.installOperator(desired)
				if restarts {
					f.Delete("Thing", "default/thing")
					<-time.After(DefaultTimeout/2 - time.Minute)
					f.restart()
				}
				began := time.Now()
				var waits []string
				ctx := WithWait(t.Context(), func(objects string) (func(), error) {
					waits = append(waits, objects)
					return func() {}, nil
				})
				left, err := f.engine.Uninstall(ctx, desired, f.baseline)
				if err != nil {
					t.Fatal(err)
				}
				const held = "Thing default/thing (its deletion waits for the finalizers example.com/cleanup)"
				if diff := cmp.Diff([]string{held}, waits); diff != "" {
					t.Errorf("waits (-want +got):\n%s", diff)
				}
				if got := Enumerate(left); got != held {
					t.Errorf("left %q, want %q", got, held)
				}
				want := DefaultTimeout / 2
				if restarts {
					want = time.Minute
				}
				if took := time.Since(began).Round(2 * time.Second); took != want {
					t.Errorf("the uninstall took %s, want %s", took, want)
				}
				if f.Object("Deployment", "default/operator") != nil {
					t.Error("the operator is still there")
				}
			})
		})
	}
}

// TestNoWaitForCustomResources: custom resources without finalizers, or with nothing to remove after
// them, cost no wait.
func TestNoWaitForCustomResources(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.serveThings(true)
		alone := made(t, map[string]string{"templates/thing.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: thing}\n"})
		f.must(alone, ActionInstall, CauseNotInstalled)
		f.Edit("Thing", "default/thing", "operator", withFinalizer("example.com/cleanup"))
		synctest.Wait()
		began := time.Now()
		left, err := f.engine.Uninstall(t.Context(), alone, f.baseline)
		if took := time.Since(began); err != nil || took > 0 || len(left) != 1 {
			t.Errorf("the uninstall took %s, left %v, error %v", took, left, err)
		}
		f.Edit("Thing", "default/thing", "operator", withFinalizer())
		f.baseline = Baseline{}
		desired := operatorAndThing(t)
		f.must(desired, ActionInstall, CauseNotInstalled)
		synctest.Wait()
		began = time.Now()
		f.uninstall(desired)
		if took := time.Since(began); took > 0 {
			t.Errorf("the uninstall took %s", took)
		}
	})
}

// TestRefusedCustomResourceKeepsWorkloads: while the deletion of a custom resource is refused, its
// controller stays.
func TestRefusedCustomResourceKeepsWorkloads(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		desired := operatorAndThing(t)
		f.installOperator(desired)
		refused := true
		f.With(func() {
			f.Fault = func(request fakeapi.Request) fakeapi.Fault {
				if refused && request.String() == "delete things default/thing" {
					return fakeapi.AnswerForbidden
				}
				return fakeapi.NoFault
			}
		})
		if err := f.tryUninstall(desired); !apierrors.IsForbidden(err) {
			t.Fatalf("error is %v, want the API server's", err)
		}
		if f.Object("Deployment", "default/operator") == nil {
			t.Error("the operator is gone")
		}
		f.With(func() { refused = false })
		f.Edit("Thing", "default/thing", "operator", withFinalizer())
		f.uninstall(desired)
		if names := f.Names(); slices.Contains(names, "Deployment default/operator") || slices.Contains(names, "Thing default/thing") {
			t.Errorf("left behind: %s", names)
		}
	})
}
