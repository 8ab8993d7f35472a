// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// withDrift returns a DemoApp with a drift policy.
func withDrift(policy releasev1alpha1.DriftPolicy) *v1alpha1.DemoApp {
	app := apps.Named("web")
	app.Spec.Drift = &policy
	return app
}

// driftDetected counts the drifted objects of all DemoApps.
const driftDetected = `controller_drift_detected_total{controller="demoapp"}`

func TestReportedDriftIsNotCorrected(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(withDrift(releasev1alpha1.DriftPolicy{Mode: releasev1alpha1.DriftWarn}))
	revision := apps.Revision(ns.AwaitReady("web"))
	counted := metric(t.Context(), t, driftDetected)
	for _, owned := range ownedKinds {
		patch(t, shared.Dynamic.Resource(owned.resource).Namespace(ns.Name), "web", owned.change)
	}
	app := ns.Await("web", "all drift reported", func(app *v1alpha1.DemoApp) bool {
		message := apps.Condition(app, releasev1alpha1.ConditionDrifted).Message
		for _, field := range []string{"/data/index.html", "Secret web (changed): /data", "/spec/replicas", "/spec/selector/app.kubernetes.io~1name"} {
			if !strings.Contains(message, field) {
				return false
			}
		}
		return true
	})
	if message := apps.Condition(app, releasev1alpha1.ConditionDrifted).Message; strings.Contains(message, "Changed by another client") ||
		strings.Contains(message, "c3RvbGVuLWtleQ==") || strings.Contains(message, "apiKey") {
		t.Errorf("the message has values or keys of a Secret: %s", message)
	}
	ns.AwaitEvent("web", "DriftDetected", "Secret web (changed): /data")
	cluster.Eventually(t.Context(), t, "reported drift counted", func(ctx context.Context) (bool, error) {
		return metric(ctx, t, driftDetected) >= counted+float64(len(ownedKinds)), nil
	})
	ns.AwaitQuiet(quiet)
	began := time.Now()
	ns.AwaitQuiet(quiet)
	if requests := ns.Requests(began); len(requests) > 0 {
		t.Errorf("drift that is left as it is costs requests:\n%s", apps.Describe(requests))
	}
	if got := ns.Objects("web").ConfigMap.Data["index.html"]; got != "Changed by another client" {
		t.Errorf("index.html is %q", got)
	}

	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Drift.Mode = releasev1alpha1.DriftCorrect })
	app = ns.Await("web", "corrected", func(app *v1alpha1.DemoApp) bool {
		return app.Status.ObservedGeneration == app.Generation && apps.IsAbsent(app, releasev1alpha1.ConditionDrifted)
	})
	if got := ns.Objects("web").ConfigMap.Data["index.html"]; !strings.Contains(got, app.Spec.Message) {
		t.Errorf("index.html is %q", got)
	}
	if got := apps.Revision(app); got != revision {
		t.Errorf("revision is %d, was %d", got, revision)
	}
}

// assertNothingCorrected asserts that the operator has corrected nothing and does not report a
// correction.
func assertNothingCorrected(t *testing.T, ns *apps.Namespace, name string) {
	t.Helper()
	events, err := shared.Client.EventsV1().Events(ns.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events.Items {
		if event := events.Items[i]; event.Regarding.Name == name && event.Reason == "DriftCorrected" {
			t.Errorf("event %s: %s", event.Reason, event.Note)
		}
	}
	for _, entry := range ns.AwaitReady(name).Status.History {
		if entry.Action == releasev1alpha1.HistoryRepair {
			t.Errorf("the history has %s %s: %s", entry.Action, entry.Outcome, entry.Reason)
		}
	}
}

func TestForeignFieldsAreRemoved(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(withDrift(releasev1alpha1.DriftPolicy{ForeignFields: releasev1alpha1.ForeignFieldsRemove}))
	ns.AwaitReady("web")
	additions := map[string]string{
		"Deployment": `{"metadata": {"labels": {"extra": "label"}}, "spec": {"template": {"spec": {"containers": [{"name": "extra", "image": "nginx:1"}]}}}}`,
		"Service":    `{"metadata": {"annotations": {"extra": "annotation"}}, "spec": {"ports": [{"port": 81, "name": "extra"}]}}`,
		"ConfigMap":  `{"data": {"extra": "key"}}`,
		"Secret":     `{"data": {"extra": "a2V5"}}`,
	}
	for _, owned := range ownedKinds {
		client := shared.Dynamic.Resource(owned.resource).Namespace(ns.Name)
		// A strategic merge patch, as kubectl sends it, adds an item to a list.
		if _, err := client.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(additions[owned.kind]),
			metav1.PatchOptions{FieldManager: "another-client"}); err != nil {
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
	if got := ns.AwaitReady("web").Status.LastUpgradeReason; got != releasev1alpha1.UpgradeReasonDriftDetected {
		t.Errorf("lastUpgradeReason is %s", got)
	}

	// A client that applies the chart's own values adds nothing that could be removed.
	ns.AwaitQuiet(quiet)
	known := len(ns.Versions("web"))
	configMaps := shared.Dynamic.Resource(ownedKinds[2].resource).Namespace(ns.Name)
	same := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web"}}}`
	if _, err := configMaps.Patch(t.Context(), "web", types.ApplyPatchType, []byte(same), metav1.PatchOptions{FieldManager: "another-client"}); err != nil {
		t.Fatal(err)
	}
	ns.Await("web", "reconciled", func(app *v1alpha1.DemoApp) bool {
		return len(ns.Versions("web")) > known && apps.IsReady(app) && apps.IsAbsent(app, releasev1alpha1.ConditionDrifted)
	})
	ns.AwaitQuiet(quiet)
	began := time.Now()
	ns.AwaitQuiet(quiet)
	if requests := ns.Requests(began); len(requests) > 0 {
		t.Errorf("a shared field costs requests over and over:\n%s", apps.Describe(requests))
	}
}

// TestIgnoredFieldsAreNotRemoved: an ignored field keeps the value of another client, even if that
// client is then its only owner. The field follows the chart again when it is no longer ignored.
func TestIgnoredFieldsAreNotRemoved(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const scaled, defaced = "kept-clean", "web"
	if err := shared.ApplyFiles(t.Context(), ns.Name, "artifacts/examples/drift-policy.yaml"); err != nil {
		t.Fatal(err)
	}
	ns.Create(withDrift(releasev1alpha1.DriftPolicy{
		Ignore:        []releasev1alpha1.DriftIgnore{{Kind: "ConfigMap", Paths: []string{"/data/index.html"}}},
		ForeignFields: releasev1alpha1.ForeignFieldsRemove,
	}))
	ns.AwaitReady(scaled)
	ns.AwaitReady(defaced)
	deployments := shared.Dynamic.Resource(ownedKinds[0].resource).Namespace(ns.Name)
	configMaps := shared.Dynamic.Resource(ownedKinds[2].resource).Namespace(ns.Name)
	patch(t, deployments, scaled, `{"spec": {"replicas": 2}}`)
	patch(t, configMaps, defaced, ownedKinds[2].change)
	check := func(step string) {
		t.Helper()
		if got := ptr.Deref(ns.Objects(scaled).Deployment.Spec.Replicas, 0); got != 2 {
			t.Errorf("%s: %d replicas", step, got)
		}
		if got := ns.Objects(defaced).ConfigMap.Data["index.html"]; got != "Changed by another client" {
			t.Errorf("%s: index.html is %q", step, got)
		}
	}
	ns.Await(scaled, "scaled", func(app *v1alpha1.DemoApp) bool { return app.Status.ReadyReplicas == 2 && apps.IsReady(app) })
	ns.AwaitQuiet(quiet)
	check("left alone")
	assertNothingCorrected(t, ns, scaled)
	assertNothingCorrected(t, ns, defaced)
	began := time.Now()
	ns.AwaitQuiet(quiet)
	if requests := ns.Requests(began); len(requests) > 0 {
		t.Errorf("ignored fields cost requests over and over:\n%s", apps.Describe(requests))
	}

	for _, name := range []string{scaled, defaced} {
		patch(t, configMaps, name, `{"data": {"extra": "key"}}`)
		patch(t, deployments, name, `{"metadata": {"labels": {"extra": "label"}}}`)
		ns.Await(name, "cleaned", func(app *v1alpha1.DemoApp) bool {
			objects := ns.Objects(name)
			_, key := objects.ConfigMap.Data["extra"]
			_, label := objects.Deployment.Labels["extra"]
			return !key && !label && apps.IsReady(app) && apps.IsAbsent(app, releasev1alpha1.ConditionDrifted)
		})
	}
	check("beside additions that were removed")

	for _, name := range []string{scaled, defaced} {
		ns.Change(name, func(spec *v1alpha1.DemoAppSpec) { spec.Drift.Ignore = nil })
		ns.Await(name, "as the chart has it", func(app *v1alpha1.DemoApp) bool {
			objects := ns.Objects(name)
			return app.Status.ObservedGeneration == app.Generation && apps.IsReady(app) &&
				ptr.Deref(objects.Deployment.Spec.Replicas, 0) == 1 && strings.Contains(objects.ConfigMap.Data["index.html"], "<html")
		})
	}
}
