// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// withDrift is a DemoApp with a drift policy.
func withDrift(policy v1alpha1.DriftPolicy) *v1alpha1.DemoApp {
	app := apps.Named("web")
	app.Spec.Drift = &policy
	return app
}

func TestDriftIsOnlyReported(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	revision := apps.Revision(ns.AwaitReady("web"))
	for _, owned := range ownedKinds {
		patch(t, shared.Dynamic.Resource(owned.resource).Namespace(ns.Name), "web", owned.change)
	}
	app := ns.Await("web", "all drift reported", func(app *v1alpha1.DemoApp) bool {
		message := apps.Condition(app, v1alpha1.ConditionDrifted).Message
		for _, field := range []string{"/data/index.html", "/data/apiKey", "/spec/replicas", "/spec/selector/app.kubernetes.io~1name"} {
			if !strings.Contains(message, field) {
				return false
			}
		}
		return true
	})
	if message := apps.Condition(app, v1alpha1.ConditionDrifted).Message; strings.Contains(message, "Somebody else") ||
		strings.Contains(message, "c3RvbGVuLWtleQ==") {
		t.Errorf("values are told: %s", message)
	}
	ns.AwaitEvent("web", "DriftDetected", "/data/apiKey")
	ns.AwaitQuiet(quiet)
	began := time.Now()
	ns.AwaitQuiet(quiet)
	if requests := ns.Requests(began); len(requests) > 0 {
		t.Errorf("drift that is left as it is costs requests:\n%s", apps.Describe(requests))
	}
	if got := ns.Objects("web").ConfigMap.Data["index.html"]; got != "Somebody else was here" {
		t.Errorf("index.html is %q", got)
	}

	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Drift.Mode = v1alpha1.DriftCorrect })
	app = ns.Await("web", "corrected", func(app *v1alpha1.DemoApp) bool {
		return app.Status.ObservedGeneration == app.Generation && apps.IsAbsent(app, v1alpha1.ConditionDrifted)
	})
	if got := ns.Objects("web").ConfigMap.Data["index.html"]; !strings.Contains(got, app.Spec.Message) {
		t.Errorf("index.html is %q", got)
	}
	if got := apps.Revision(app); got != revision {
		t.Errorf("revision is %d, was %d", got, revision)
	}
}

func TestDriftIsOff(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftOff}))
	ns.AwaitReady("web")
	ns.AwaitQuiet(quiet)
	began := time.Now()
	patch(t, shared.Dynamic.Resource(ownedKinds[2].resource).Namespace(ns.Name), "web", ownedKinds[2].change)
	ns.AwaitQuiet(quiet)
	if requests := ns.Requests(began); len(requests) > 0 {
		t.Errorf("drift that is nobody's business costs requests:\n%s", apps.Describe(requests))
	}
	if got := ns.Objects("web").ConfigMap.Data["index.html"]; got != "Somebody else was here" {
		t.Errorf("index.html is %q", got)
	}
}

func TestIgnoredFieldsStay(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(withDrift(v1alpha1.DriftPolicy{Ignore: []v1alpha1.DriftIgnore{
		{Kind: "Deployment", Paths: []string{"/spec/replicas"}},
		{Kind: "ConfigMap", Name: "web", Paths: []string{"/data/index.html"}},
	}}))
	ns.AwaitReady("web")
	deployments := shared.Dynamic.Resource(ownedKinds[0].resource).Namespace(ns.Name)
	check := func(step string) {
		t.Helper()
		objects := ns.Objects("web")
		if got := ptr.Deref(objects.Deployment.Spec.Replicas, 0); got != 3 {
			t.Errorf("%s: %d replicas", step, got)
		}
		if got := objects.ConfigMap.Data["index.html"]; got != "Somebody else was here" {
			t.Errorf("%s: index.html is %q", step, got)
		}
	}
	patch(t, deployments, "web", `{"spec": {"replicas": 3}}`)
	patch(t, shared.Dynamic.Resource(ownedKinds[2].resource).Namespace(ns.Name), "web", ownedKinds[2].change)
	ns.Await("web", "scaled", func(app *v1alpha1.DemoApp) bool { return app.Status.ReadyReplicas == 3 && apps.IsReady(app) })
	check("left alone")

	patch(t, deployments, "web", `{"spec": {"revisionHistoryLimit": 7}}`)
	ns.Await("web", "corrected", func(app *v1alpha1.DemoApp) bool {
		return app.Status.LastUpgradeReason == v1alpha1.UpgradeReasonDriftDetected && apps.IsReady(app)
	})
	if got := ptr.Deref(ns.Objects("web").Deployment.Spec.RevisionHistoryLimit, 0); got == 7 {
		t.Error("a field that is not ignored was not put back")
	}
	check("after a repair")

	generation := ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Message, spec.APIKey = "Another one", "another-key" }).Generation
	ns.Await("web", "upgraded", func(app *v1alpha1.DemoApp) bool {
		return app.Status.ObservedGeneration == generation && apps.IsReady(app)
	})
	check("after an upgrade")
}

func TestForeignFieldsAreRemoved(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(withDrift(v1alpha1.DriftPolicy{ForeignFields: v1alpha1.ForeignFieldsRemove}))
	ns.AwaitReady("web")
	additions := map[string]string{
		"Deployment": `{"metadata": {"labels": {"extra": "label"}}, "spec": {"template": {"spec": {"containers": [{"name": "extra", "image": "nginx:1"}]}}}}`,
		"Service":    `{"metadata": {"annotations": {"extra": "annotation"}}, "spec": {"ports": [{"port": 81, "name": "extra"}]}}`,
		"ConfigMap":  `{"data": {"extra": "key"}}`,
		"Secret":     `{"data": {"extra": "a2V5"}}`,
	}
	for _, owned := range ownedKinds {
		client := shared.Dynamic.Resource(owned.resource).Namespace(ns.Name)
		// Strategic merge, as kubectl patches: an item is added to a list.
		if _, err := client.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(additions[owned.kind]),
			metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
	ns.Await("web", "clean", func(app *v1alpha1.DemoApp) bool {
		objects := ns.Objects("web")
		_, label := objects.Deployment.Labels["extra"]
		_, annotation := objects.Service.Annotations["extra"]
		_, key := objects.ConfigMap.Data["extra"]
		_, secret := objects.Secret.Data["extra"]
		return !label && !annotation && !key && !secret &&
			len(objects.Deployment.Spec.Template.Spec.Containers) == 1 && len(objects.Service.Spec.Ports) == 1 && apps.IsReady(app)
	})
	if got := ns.AwaitReady("web").Status.LastUpgradeReason; got != v1alpha1.UpgradeReasonDriftDetected {
		t.Errorf("lastUpgradeReason is %s", got)
	}

	// Who applies what the chart has, too, adds nothing that could be removed.
	ns.AwaitQuiet(quiet)
	known := len(ns.Versions("web"))
	configMaps := shared.Dynamic.Resource(ownedKinds[2].resource).Namespace(ns.Name)
	same := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web"}}}`
	if _, err := configMaps.Patch(t.Context(), "web", types.ApplyPatchType, []byte(same), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	ns.Await("web", "looked at", func(app *v1alpha1.DemoApp) bool {
		return len(ns.Versions("web")) > known && apps.IsReady(app) && apps.IsAbsent(app, v1alpha1.ConditionDrifted)
	})
	ns.AwaitQuiet(quiet)
	began := time.Now()
	ns.AwaitQuiet(quiet)
	if requests := ns.Requests(began); len(requests) > 0 {
		t.Errorf("a shared field costs requests over and over:\n%s", apps.Describe(requests))
	}
}
