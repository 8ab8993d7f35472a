// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

const (
	httpRouteCRDFile = "test/integration/testdata/httproute-crd.yaml"
	httpRouteCRD     = "httproutes.gateway.networking.k8s.io"
)

var (
	ingresses  = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	httpRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// exposedBy returns a DemoApp with an Ingress of a class, or with an HTTPRoute of a Gateway.
func exposedBy(name, class, gateway string) *v1alpha1.DemoApp {
	app := apps.Named(name)
	app.Spec.Ingress = &v1alpha1.IngressSpec{Host: name + ".example.com", ClassName: class}
	if gateway != "" {
		app.Spec.Ingress.Gateway = &v1alpha1.GatewayReference{Name: gateway, Namespace: "infra"}
	}
	app.Spec.Drift = &releasev1alpha1.DriftPolicy{ForeignFields: releasev1alpha1.ForeignFieldsRemove}
	return app
}

// followed reports whether a DemoApp's release has followed the cluster's capabilities.
func followed(revision int64, exposed metav1.ConditionStatus, reason string) func(*v1alpha1.DemoApp) bool {
	return func(app *v1alpha1.DemoApp) bool {
		return apps.IsReady(app) && apps.Revision(app) == revision && apps.Has(app, v1alpha1.ConditionExposed, exposed, reason) &&
			(revision == 1 || app.Status.LastUpgradeReason == releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged)
	}
}

// createClass creates an IngressClass that no controller serves.
func createClass(t *testing.T, name string) {
	t.Helper()
	classes := shared.Client.NetworkingV1().IngressClasses()
	_, err := classes.Create(t.Context(), &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/none"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := classes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// assertCorrected asserts that an object of a release is corrected when it is changed, recreated
// when it is deleted, and freed of foreign fields.
func assertCorrected(t *testing.T, client dynamic.ResourceInterface, name, change string) {
	t.Helper()
	want := get(t, client, name)
	patch(t, client, name, change)
	awaitSame(t, client, want, time.Now())
	patch(t, client, name, `{"metadata": {"labels": {"theirs": "label"}}}`)
	awaitSame(t, client, want, time.Now())
	if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "recreated", func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return err == nil, err
	})
}

func awaitAbsent(t *testing.T, client dynamic.ResourceInterface, name string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "gone", func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

func TestIngressFollowsItsClass(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	class, client := ns.Name, shared.Dynamic.Resource(ingresses).Namespace(ns.Name)
	app := exposedBy("web", class, "")
	app.Spec.Ingress.TLS = &v1alpha1.IngressTLS{SecretName: "cert"}
	ns.Create(app)
	ns.Create(apps.Named("inside"))
	ns.AwaitReady("inside")
	app = ns.Await("web", "ready without an Ingress", followed(1, metav1.ConditionFalse, v1alpha1.ReasonIngressClassMissing))
	if app.Status.ExternalURL != "" {
		t.Errorf("externalURL is %q", app.Status.ExternalURL)
	}
	awaitAbsent(t, client, "web")
	ns.AwaitEvent("web", v1alpha1.ReasonIngressClassMissing, class)

	createClass(t, class)
	app = ns.Await("web", "exposed", followed(2, metav1.ConditionTrue, v1alpha1.ReasonRouteDeployed))
	if app.Status.ExternalURL != "https://web.example.com" {
		t.Errorf("externalURL is %q", app.Status.ExternalURL)
	}
	ingress, err := shared.Client.NetworkingV1().Ingresses(ns.Name).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *ingress.Spec.IngressClassName != class || ingress.Spec.Rules[0].Host != "web.example.com" || ingress.Spec.TLS[0].SecretName != "cert" {
		t.Errorf("the Ingress is %+v", ingress.Spec)
	}
	assertCorrected(t, client, "web", `{"spec": {"ingressClassName": "another"}}`)
	ns.AwaitQuiet(quiet)

	before := get(t, client, "web").GetUID()
	if err := shared.Client.NetworkingV1().IngressClasses().Delete(t.Context(), class, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	app = ns.Await("web", "without its class", func(app *v1alpha1.DemoApp) bool {
		return apps.IsReady(app) && apps.Has(app, v1alpha1.ConditionExposed, metav1.ConditionFalse, v1alpha1.ReasonIngressClassMissing)
	})
	if app.Status.ExternalURL != "https://web.example.com" {
		t.Errorf("externalURL is %q", app.Status.ExternalURL)
	}

	// A class that comes back changes nothing. The object is deleted with the rest of the release.
	createClass(t, class)
	app = ns.Await("web", "exposed again", func(app *v1alpha1.DemoApp) bool {
		return apps.IsReady(app) && apps.Has(app, v1alpha1.ConditionExposed, metav1.ConditionTrue, v1alpha1.ReasonRouteDeployed)
	})
	if now := get(t, client, "web").GetUID(); now != before || apps.Revision(app) != 2 {
		t.Errorf("the Ingress has the UID %s at revision %d, want %s at revision 2", now, apps.Revision(app), before)
	}
	ns.Delete("web")
	ns.AwaitGone("web")
	awaitAbsent(t, client, "web")
	if inside := ns.AwaitReady("inside"); apps.Revision(inside) != 1 || !apps.IsAbsent(inside, v1alpha1.ConditionExposed) {
		t.Errorf("a DemoApp without an Ingress is at revision %d: %+v", apps.Revision(inside), inside.Status.Conditions)
	}
}

func TestForeignRouteBlocksRelease(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	createClass(t, ns.Name)
	createUnstructured(t, shared.Dynamic.Resource(ingresses).Namespace(ns.Name), `{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
		"metadata": {"name": "web"}, "spec": {"defaultBackend": {"service": {"name": "theirs", "port": {"number": 80}}}}}`)
	ns.Create(exposedBy("web", ns.Name, ""))
	ns.Await("web", "refused", func(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, apimeta.ReasonOwnershipConflict) })
}

func createUnstructured(t *testing.T, client dynamic.ResourceInterface, text string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(t.Context(), object, metav1.CreateOptions{FieldManager: "their-tool"}); err != nil {
		t.Fatal(err)
	}
}

// TestHTTPRouteFollowsTheGatewayAPI installs the Gateway API, and removes it with all its objects.
// No other test may do so.
func TestHTTPRouteFollowsTheGatewayAPI(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	client := shared.Dynamic.Resource(httpRoutes).Namespace(ns.Name)
	removeAPI := func(ctx context.Context) error {
		err := shared.Dynamic.Resource(crds).Delete(ctx, httpRouteCRD, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	t.Cleanup(func() {
		if err := removeAPI(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	ns.Create(exposedBy("web", "", "public"))
	ns.Await("web", "ready without an HTTPRoute", followed(1, metav1.ConditionFalse, v1alpha1.ReasonGatewayAPIMissing))

	if err := shared.InstallCRDs(t.Context(), httpRouteCRDFile); err != nil {
		t.Fatal(err)
	}
	app := ns.Await("web", "exposed", followed(2, metav1.ConditionTrue, v1alpha1.ReasonRouteDeployed))
	if app.Status.ExternalURL != "http://web.example.com" {
		t.Errorf("externalURL is %q", app.Status.ExternalURL)
	}
	hosts, _, err := unstructured.NestedStringSlice(get(t, client, "web").Object, "spec", "hostnames")
	if err != nil || len(hosts) != 1 || hosts[0] != "web.example.com" {
		t.Errorf("hostnames are %v, %v", hosts, err)
	}
	assertCorrected(t, client, "web", `{"spec": {"hostnames": ["other.example.com"]}}`)
	createUnstructured(t, client, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "theirs"}, "spec": {}}`)
	ns.Create(exposedBy("theirs", "", "public"))
	ns.Await("theirs", "refused", func(app *v1alpha1.DemoApp) bool { return apps.IsStalled(app, apimeta.ReasonOwnershipConflict) })
	ns.Create(exposedBy("short-lived", "", "public"))
	ns.AwaitReady("short-lived")
	ns.Delete("short-lived")
	ns.AwaitGone("short-lived")
	awaitAbsent(t, client, "short-lived")

	if err := removeAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web", "theirs"} {
		ns.Await(name, "ready without the Gateway API", func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && apps.Has(app, v1alpha1.ConditionExposed, metav1.ConditionFalse, v1alpha1.ReasonGatewayAPIMissing)
		})
	}
	if app = ns.AwaitReady("web"); app.Status.LastUpgradeReason != releasev1alpha1.UpgradeReasonClusterCapabilitiesChanged || app.Status.ExternalURL != "" {
		t.Errorf("lastUpgradeReason is %s, externalURL %q", app.Status.LastUpgradeReason, app.Status.ExternalURL)
	}
	awaitAbsent(t, shared.Dynamic.Resource(crds), httpRouteCRD)
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message = "later" })
	ns.AwaitReady("web")
	for _, name := range []string{"web", "theirs"} {
		ns.Delete(name)
		ns.AwaitGone(name)
	}
}
