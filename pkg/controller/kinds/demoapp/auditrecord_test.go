// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

func TestAuditRecord(t *testing.T) {
	deletedAt := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	tests := []struct {
		name   string
		change func(*v1alpha1.DemoApp)
		apiKey string
	}{
		{"key in the spec", func(*v1alpha1.DemoApp) {}, "REDACTED"},
		{"key in a Secret", keyFrom("keys", "k"), ""},
		{"key that looks like JSON", func(app *v1alpha1.DemoApp) { app.Spec.APIKey = `"status":` }, "REDACTED"},
		{
			"key in a message",
			func(app *v1alpha1.DemoApp) { app.Status.Conditions[0].Message = "cannot take " + app.Spec.APIKey },
			"REDACTED",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			app := newApp("a", isDown, test.change)
			app.DeletionTimestamp = &deletedAt
			before := app.DeepCopy()

			record := auditRecord(app)

			expect.Equal(t, "app", before, app)
			expect.Equal(t, "object", "ns/a at 2026-01-02 03:04:05 +0000 UTC", fmt.Sprintf("%s/%s at %s", record.Namespace, record.Name, record.DeletedAt))
			spec := app.Spec.DeepCopy()
			spec.APIKey = test.apiKey
			if diff := cmp.Diff(spec, record.Sections["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			expect.Contains(t, "status", asJSON(t, record.Sections["status"]), `"reason":"UpgradeFailed"`)
			if showsKey(asJSON(t, record.Sections)) {
				t.Errorf("shows the key: %v", record.Sections)
			}
		})
	}
}

// TestDeletionOfLargeDemoApp: values that do not fit into an audit record do not block
// the deletion. Escaped for HTML, these values would not even fit into a ConfigMap.
func TestDeletionOfLargeDemoApp(t *testing.T) {
	w := newWorld(t)
	w.makeAuditNamespace()
	w.create(newApp("a", func(app *v1alpha1.DemoApp) {
		app.Finalizers = []string{v1alpha1.Finalizer}
		app.Spec.Values = &runtime.RawExtension{Raw: []byte(`{"text":"` + strings.Repeat("<", 1<<20) + `"}`)}
	}))
	w.delete("a")

	w.passesUnchecked("a", controller.SpecChange)

	if w.app("a") != nil {
		t.Error("the app still exists")
	}
	record := w.records()[onlyKey(t, w.records())]
	expect.Contains(t, "spec", record.Data["spec"], `"message":"hello"`)
	expect.Contains(t, "spec", record.Data["spec"], `"values":{"omitted":true,"sha256":"`)
}
