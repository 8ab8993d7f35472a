// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// annotate sets annotations of a DemoApp, as kubectl does.
func annotate(t *testing.T, ns *apps.Namespace, name string, annotations map[string]string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ns.Demo.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestReconcileNow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	annotate(t, ns, "web", map[string]string{releasev1alpha1.AnnotationRequestedAt: "first"})
	app := ns.Await("web", "reconciled", func(app *v1alpha1.DemoApp) bool { return app.Status.LastHandledRequestedAt == "first" })
	if apps.Revision(app) != 1 || app.Status.LastHandledForceAt != "" {
		t.Errorf("revision %d, lastHandledForceAt %q", apps.Revision(app), app.Status.LastHandledForceAt)
	}

	annotate(t, ns, "web", map[string]string{releasev1alpha1.AnnotationRequestedAt: "second", releasev1alpha1.AnnotationForceAt: "second"})
	app = ns.Await("web", "upgraded", func(app *v1alpha1.DemoApp) bool {
		return app.Status.LastHandledForceAt == "second" && apps.IsReady(app)
	})
	if apps.Revision(app) != 2 || app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonUserRequested || app.Status.LastHandledRequestedAt != "second" {
		t.Errorf("revision %d because of %s, lastHandledRequestedAt %q", apps.Revision(app), app.Status.LastUpgradeReason, app.Status.LastHandledRequestedAt)
	}
	ns.AwaitEvent("web", "Upgraded", "revision 2", "UserRequested")

	annotate(t, ns, "web", map[string]string{releasev1alpha1.AnnotationRequestedAt: strings.Repeat("x", 257)})
	ns.AwaitEvent("web", "RequestIgnored", "has 257 characters; it may have 256")
	ns.AwaitQuiet(quiet)
	assertRecords(t, ns, "web v1 superseded", "web v2 deployed")
}
