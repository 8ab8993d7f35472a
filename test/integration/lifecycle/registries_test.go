// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestAllowedRegistries restarts the operator with other lists of registries.
func TestAllowedRegistries(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	isValid := func(valid metav1.ConditionStatus) func(*v1alpha1.DemoApp) bool {
		return func(app *v1alpha1.DemoApp) bool { return apps.Has(app, v1alpha1.ConditionValidated, valid, "") }
	}
	operator := cluster.StartOperator(t.Context(), t, shared, "--allowed-registries=docker.io/library, registry.example.com/team")
	elsewhere := apps.Named("elsewhere")
	elsewhere.Spec.Image = "registry.example.com/teamwork/web:v1"
	ns.Create(elsewhere)
	app := ns.Await("elsewhere", "invalid", isValid(metav1.ConditionFalse))
	if !apps.IsStalled(app, v1alpha1.ReasonValidationFailed) || len(ns.Records("elsewhere")) > 0 {
		t.Errorf("conditions %+v, records %v", app.Status.Conditions, ns.Records("elsewhere"))
	}
	ns.AwaitEvent("elsewhere", v1alpha1.ReasonValidationFailed, "registry.example.com/teamwork/web")
	ns.Create(apps.Named("web"))
	app = ns.AwaitReady("web")
	if message := apps.Condition(app, v1alpha1.ConditionValidated).Message; !strings.Contains(message, "docker.io/library/nginx") {
		t.Errorf("Validated says %q", message)
	}
	operator.Stop()

	// The status says that the image is no longer allowed, and the app keeps running.
	operator = cluster.StartOperator(t.Context(), t, shared, "--allowed-registries=registry.example.com")
	app = ns.Await("web", "invalid", isValid(metav1.ConditionFalse))
	if !apps.Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, "") || ns.Objects("web").Deployment == nil {
		t.Errorf("conditions %+v", app.Status.Conditions)
	}
	ns.Await("elsewhere", "valid", isValid(metav1.ConditionTrue))
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "later" })
	app = ns.Await("web", "invalid", func(app *v1alpha1.DemoApp) bool {
		return apps.IsStalled(app, v1alpha1.ReasonValidationFailed) && apps.Condition(app, apimeta.ConditionReady).ObservedGeneration == app.Generation
	})
	if apps.Revision(app) != 1 {
		t.Errorf("revision %d", apps.Revision(app))
	}
	operator.Stop()

	// Without the flag, the status says nothing about registries.
	operator = cluster.StartOperator(t.Context(), t, shared)
	app = ns.AwaitReady("web")
	if apps.Revision(app) != 2 || !apps.IsAbsent(app, v1alpha1.ConditionValidated) {
		t.Errorf("revision %d, conditions %+v", apps.Revision(app), app.Status.Conditions)
	}
	operator.Stop()
}
