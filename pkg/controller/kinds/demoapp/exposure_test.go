// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	noClass     = "False IngressClassMissing"
	noGateway   = "False GatewayAPIMissing"
	isExposed   = "True RouteDeployed"
	noClassText = `IngressClass "nginx" does not exist`
	noRouteText = "The cluster does not have the kind HTTPRoute of gateway.networking.k8s.io/v1"
)

// exposedBy requests an Ingress of a class and an HTTPRoute of a Gateway.
func exposedBy(class string, gateway ...string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) {
		app.Spec.Ingress = &v1alpha1.IngressSpec{Host: "web.example.com", ClassName: class}
		for _, name := range gateway {
			app.Spec.Ingress.Gateway = &v1alpha1.GatewayReference{Name: name}
		}
	}
}

func atHost(host string) func(*v1alpha1.DemoApp) {
	return func(app *v1alpha1.DemoApp) { app.Spec.Ingress.Host = host }
}

// renders reports whether the last deployed values enable the Ingress and the HTTPRoute.
func (w *world) renders() (ingress, httpRoute any) {
	w.t.Helper()
	of := func(name string) any {
		values, ok := w.engine.Desired.Values[name].(map[string]any)
		if !ok {
			w.t.Fatalf("no values for %s", name)
		}
		return values["enabled"]
	}
	return of("ingress"), of("httpRoute")
}

func TestExternalURL(t *testing.T) {
	tests := []struct {
		name string
		spec v1alpha1.IngressSpec
		want string
	}{
		{"http", v1alpha1.IngressSpec{Host: "web.example.com"}, "http://web.example.com"},
		{"https", v1alpha1.IngressSpec{Host: "web.example.com", TLS: &v1alpha1.IngressTLS{}}, "https://web.example.com"},
		{"wildcard host", v1alpha1.IngressSpec{Host: "*.example.com"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "url", test.want, externalURL(test.spec))
		})
	}
}

func TestIngressFollowsIngressClass(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx")))
	w.hasClasses("traefik")
	w.passes("a", controller.SpecChange)
	without := releasetest.Conditions("Validated", isValid, "Exposed", noClass, "Deployed", "True InstallSucceeded", "Ready", "True Healthy")
	expect.Equal(t, "requests", []string{"patch demoapps a", "Install a NotInstalled", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "conditions without the class", without, w.conditions("a"))
	expect.Equal(t, "message", noClassText, w.message("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL", "", w.app("a").Status.ExternalURL)
	expect.Equal(t, "events", []string{
		"a Normal Installed Install Installed revision 1 of chart demo-app 1.0.0 (SpecGenerationChanged)",
		"a Warning IngressClassMissing Reconcile " + noClassText,
	}, w.recorder.Take())
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "requests of another pass", []string(nil), w.calls.Take())

	w.hasClasses("traefik", "nginx")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string{"Upgrade a InputsChanged", "apply demoapps/status a"}, w.calls.Take())
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged, w.app("a").Status.LastUpgradeReason)
	expect.Equal(t, "conditions with the class", releasetest.Conditions("Validated", isValid, "Exposed", isExposed, "Deployed", "True UpgradeSucceeded", "Ready", "True Healthy"), w.conditions("a"))
	expect.Equal(t, "message", "Ingress for host web.example.com", w.message("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL", "http://web.example.com", w.app("a").Status.ExternalURL)
	ingress, httpRoute := w.renders()
	expect.Equal(t, "rendered", []any{true, false}, []any{ingress, httpRoute})
	expect.Equal(t, "events", []string{
		"a Normal Upgraded Upgrade Upgraded to revision 2 of chart demo-app 1.0.0 (ClusterCapabilitiesChanged)",
	}, w.recorder.Take())

	// A new process sends no requests.
	w.start(testChart(t, "1.0.0"))
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests after a restart", []string(nil), w.calls.Take())

	w.hasClasses()
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged, w.app("a").Status.LastUpgradeReason)
	without["Deployed"] = "True UpgradeSucceeded"
	expect.Equal(t, "conditions without the class", without, w.conditions("a"))
	expect.Equal(t, "externalURL", "", w.app("a").Status.ExternalURL)

	w.change("a", func(app *v1alpha1.DemoApp) { app.Spec.Ingress = nil })
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions without spec.ingress", releasetest.Conditions("Deployed", "True UpgradeSucceeded", "Ready", "True Healthy"), w.conditions("a"))
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonSpecGenerationChanged, w.app("a").Status.LastUpgradeReason)
}

func TestIngressAndHTTPRoute(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx", "public"), func(app *v1alpha1.DemoApp) { app.Spec.Ingress.TLS = &v1alpha1.IngressTLS{} }))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Exposed without either", noClass, w.is("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "message", noClassText+"; "+noRouteText, w.message("a", v1alpha1.ConditionExposed))
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Exposed by the Ingress", noGateway, w.is("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL", "https://web.example.com", w.app("a").Status.ExternalURL)
	w.recorder.Take()
	w.hasDefinition(httpRouteDefinition())
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Exposed by both", isExposed, w.is("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "message", "Ingress and HTTPRoute for host web.example.com", w.message("a", v1alpha1.ConditionExposed))
	ingress, httpRoute := w.renders()
	expect.Equal(t, "rendered", []any{true, true}, []any{ingress, httpRoute})
	// Both are removed at the same time.
	w.hasClasses()
	w.hasDefinition(nil)
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "lastUpgradeReason", releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged, w.app("a").Status.LastUpgradeReason)
	expect.Equal(t, "revision", int64(4), w.app("a").Status.DeployedRelease.Revision)
}

func TestExposureWhileChangeIsHeld(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx"), opensAt("10 3 * * *", "UTC")))
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Exposed", isExposed, w.is("a", v1alpha1.ConditionExposed))
	w.change("a", atHost("new.example.com"))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions of a held host", heldConditions("Validated", isValid, "Exposed", isExposed), w.conditions("a"))
	expect.Equal(t, "message", "Ingress for host web.example.com", w.message("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL", "http://web.example.com", w.app("a").Status.ExternalURL)
	w.hasClasses()
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions without the class", heldConditions("Validated", isValid, "Exposed", noClass), w.conditions("a"))
	// The Ingress stays until the held upgrade removes it.
	expect.Equal(t, "externalURL", "http://web.example.com", w.app("a").Status.ExternalURL)
	expect.Equal(t, "ingressHost", "web.example.com", w.app("a").Status.IngressHost)
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "conditions after the class is back", heldConditions("Validated", isValid, "Exposed", "False RouteNotDeployed"), w.conditions("a"))
	w.clock.Step(10 * time.Minute)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "Exposed in the end", isExposed, w.is("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL", "http://new.example.com", w.app("a").Status.ExternalURL)
}

// TestRemovedHTTPRouteReleasesHostWhileChangeIsHeld: HTTPRoutes are deleted with their
// kind, and no object keeps the host.
func TestRemovedHTTPRouteReleasesHostWhileChangeIsHeld(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("", "public"), opensAt("10 3 * * *", "UTC")))
	w.hasDefinition(httpRouteDefinition())
	w.passes("a", controller.SpecChange)
	w.report("a", func(app *v1alpha1.DemoApp) {
		app.Status.Inventory = append(app.Status.Inventory, releasev1alpha1.InventoryEntry{
			APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Namespace: "ns", Name: "a", UID: "1",
		})
	})
	expect.Equal(t, "ingressHost", "web.example.com", w.app("a").Status.IngressHost)
	w.change("a", says("other"))
	w.hasDefinition(nil)
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready", "False OutsideWindow", w.is("a", apimeta.ConditionReady))
	expect.Equal(t, "Exposed", noGateway, w.is("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL and ingressHost", []string{"", ""}, []string{w.app("a").Status.ExternalURL, w.app("a").Status.IngressHost})
}

// TestExposureAfterRollback: the host of the abandoned revision is released.
func TestExposureAfterRollback(t *testing.T) {
	w := newWorld(t)
	w.hasClasses("nginx")
	w.create(newApp("a", exposedBy("nginx"), func(app *v1alpha1.DemoApp) {
		app.Spec.WaitForReady, app.Spec.Remediation = true, &releasev1alpha1.Remediation{Retries: new(int32)}
	}))
	w.passes("a", controller.SpecChange)
	w.change("a", atHost("new.example.com"))
	w.engine.Mutate(keyOf("a"), releasetest.SetHealth(status.InProgressStatus, "0 of 1", 0))
	w.passesUntilWritten("a")
	expect.Equal(t, "externalURL", "http://new.example.com", w.app("a").Status.ExternalURL)
	w.clock.Step(10 * time.Minute)
	w.passes("a", controller.Retry)
	w.passes("a", controller.HealthChange)
	expect.Equal(t, "Ready", "False RolledBack", w.is("a", apimeta.ConditionReady))
	expect.Equal(t, "Exposed", "False RouteNotDeployed", w.is("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL and ingressHost", []string{"", ""}, []string{w.app("a").Status.ExternalURL, w.app("a").Status.IngressHost})
}

// TestUpgradeRetriesUntilHTTPRouteIsServed: the definition exists, but the engine does
// not find the kind yet.
func TestUpgradeRetriesUntilHTTPRouteIsServed(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("", "public")))
	w.passes("a", controller.SpecChange)
	w.hasDefinition(httpRouteDefinition())
	unknown := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}}
	w.engine.Failures = []error{fmt.Errorf("build: %w", unknown)}
	if _, err := w.pass("a", controller.SpecChange); !errors.Is(err, unknown) {
		t.Errorf("the pass returned %v, want an error that is retried", err)
	}
	expect.Equal(t, "conditions", releasetest.Conditions("Validated", isValid, "Exposed", "False RouteNotDeployed", "Deployed", "True InstallSucceeded",
		"Ready", noGateway, "Reconciling", "True GatewayAPIMissing"), w.conditions("a"))
	expect.Equal(t, "failures", (*releasev1alpha1.FailureCounts)(nil), w.app("a").Status.Failures)
}

func TestExposureIsKeptWhileUnknown(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx")))
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	w.classes.err = controller.ErrNotSynced
	w.change("a", says("other"))
	if _, err := w.pass("a", controller.SpecChange); !errors.Is(err, controller.ErrNotSynced) {
		t.Errorf("the pass returned %v", err)
	}
	expect.Equal(t, "Exposed", isExposed, w.is("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL", "http://web.example.com", w.app("a").Status.ExternalURL)
}

// TestOlderAppKeepsWildcardHost: a wildcard host has no URL, but is kept until the
// Ingress is deleted.
func TestOlderAppKeepsWildcardHost(t *testing.T) {
	w := newWorld(t)
	w.hasClasses("nginx")
	w.create(newApp("a", exposedBy("nginx"), atHost("*.example.com"), opensAt("10 3 * * *", "UTC")))
	w.create(newApp("b", exposedBy("nginx"), atHost("*.example.com")))
	w.passes("a", controller.SpecChange)
	w.change("a", func(app *v1alpha1.DemoApp) { app.Spec.Ingress = nil })
	w.passes("a", controller.SpecChange)
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "message", `Host *.example.com is still in use by DemoApp "a"`, w.message("b", apimeta.ConditionReady))
	w.clock.Step(10 * time.Minute)
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "ingressHost", "", w.app("a").Status.IngressHost)
	w.passes("b", controller.SpecChange)
	expect.Equal(t, "Ready", "True Healthy", w.is("b", apimeta.ConditionReady))
}

// errForbidden is the error of an informer without permission to watch.
func errForbidden(resource string) error {
	return &controller.UnfilledError{
		Failure: apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no rule allows it")),
	}
}

const classesForbidden = "IngressClasses cannot be watched: ingressclasses is forbidden: no rule allows it"

func TestNoStatusBeforeCapabilitiesAreKnown(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx")))
	w.classes.err = &controller.UnfilledError{}
	if _, err := w.pass("a", controller.SpecChange); !controller.IsPending(err) {
		t.Errorf("the pass returned %v", err)
	}
	expect.Equal(t, "requests", []string{"patch demoapps a"}, w.calls.Take())
}

func TestInstallWithoutPermissionToWatchIngressClasses(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx", "public")))
	w.classes.err = errForbidden("ingressclasses")
	w.passes("a", controller.SpecChange)
	without := releasetest.Conditions("Validated", isValid, "Exposed", "False ObserveFailed", "Deployed", "True InstallSucceeded", "Ready", "True Healthy")
	expect.Equal(t, "conditions", without, w.conditions("a"))
	expect.Equal(t, "message", classesForbidden+"; "+noRouteText, w.message("a", v1alpha1.ConditionExposed))
	ingress, httpRoute := w.renders()
	expect.Equal(t, "rendered", []any{false, false}, []any{ingress, httpRoute})
	expect.Equal(t, "event emitted", true, slices.Contains(w.recorder.Take(), "a Warning ObserveFailed Reconcile "+classesForbidden+"; "+noRouteText))

	w.engine.Mutate(keyOf("a"), releasetest.Remove("Service"))
	w.passes("a", controller.Drift)
	expect.Equal(t, "drift is repaired", true, slices.Contains(w.calls.Take(), "Repair a Drift"))
	w.passes("a", controller.PeriodicResync)
	expect.Equal(t, "conditions after the repair", without, w.conditions("a"))

	w.classes.err = nil
	w.hasClasses("nginx")
	w.passes("a", controller.DependencyReady)
	expect.Equal(t, "Exposed with permission to watch", noGateway, w.is("a", v1alpha1.ConditionExposed))
	ingress, _ = w.renders()
	expect.Equal(t, "rendered", true, ingress)
}

func TestDeployedIngressIsKeptWithoutPermissionToWatch(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx")))
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	entry := releasev1alpha1.InventoryEntry{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Namespace: namespace, Name: "a", UID: "u", Digest: "d"}
	w.report("a", func(app *v1alpha1.DemoApp) { app.Status.Inventory = append(app.Status.Inventory, entry) })
	w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) {
		r.Live["Ingress"] = helm.InventoryEntry{ObjectReference: helm.ObjectReference{
			APIVersion: entry.APIVersion, Kind: entry.Kind, Namespace: namespace, Name: "a",
		}, UID: entry.UID, Digest: entry.Digest}
	})

	w.start(testChart(t, "1.0.0"))
	w.classes.err = errForbidden("ingressclasses")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "requests", []string(nil), w.calls.Take())
	expect.Equal(t, "Exposed", isExposed, w.is("a", v1alpha1.ConditionExposed))
	expect.Equal(t, "externalURL", "http://web.example.com", w.app("a").Status.ExternalURL)
	w.change("a", says("other"))
	w.passes("a", controller.SpecChange)
	ingress, _ := w.renders()
	expect.Equal(t, "rendered with another message", []any{true, "other"}, []any{ingress, w.engine.Desired.Values["message"]})
}

func TestUnrecordedReleaseIsHeldWithoutPermissionToWatch(t *testing.T) {
	w := newWorld(t)
	w.create(newApp("a", exposedBy("nginx")))
	w.hasClasses("nginx")
	w.passes("a", controller.SpecChange)
	w.report("a", func(app *v1alpha1.DemoApp) {
		app.Status = v1alpha1.DemoAppStatus{ReleaseStatus: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}}
	})
	w.start(testChart(t, "1.0.0"))
	w.classes.err = errForbidden("ingressclasses")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "upgraded", false, slices.ContainsFunc(w.calls.Take(), func(call string) bool { return strings.HasPrefix(call, "Upgrade") }))
	expect.Equal(t, "Ready", "False ObserveFailed", w.is("a", apimeta.ConditionReady))
	expect.Equal(t, "message", classesForbidden, w.message("a", apimeta.ConditionReady))
}
