// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"bytes"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/helm"
)

// randomText is text that a chart renders differently each time.
var randomText = deviation{
	why: "it is rendered from random numbers and the time",
	forget: func(w *world) {
		mask(w.Objects["Secret NAMESPACE/web"], "data", "password")
		mask(w.Objects["Secret NAMESPACE/web"], "data", "token")
		mask(w.Objects["ConfigMap NAMESPACE/web"], "data", "at")
		mask(w.Objects["ConfigMap NAMESPACE/web"], "data", "uuid")
		for _, record := range w.Records {
			delete(record.(map[string]any), "manifest")
		}
	},
}

// TestDynamicChart compares a chart with lookups and random numbers.
func TestDynamicChart(t *testing.T) {
	t.Parallel()
	scenario{steps: []step{
		deploy("install", "dynamic", nil).but(randomText),
		deploy("upgrade", "dynamic", values{"message": "two"}),
		uninstall,
	}}.play(t)
}

// TestRendersOnce asserts that a chart is rendered when its inputs change, and not to detect changes.
func TestRendersOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t, newNamespace(t))
	chart := readChart(t, "dynamic")
	// A rendering looks up this object, and nothing else reads the object.
	const lookedUp = "configmaps/not-there"
	secrets := shared.Client.CoreV1().Secrets(e.namespace)
	var password string
	for revision, message := range []string{"one", "two", "three"} {
		desired := e.desired(chart, values{"message": message})
		if err := e.converge(t.Context(), desired); err != nil {
			t.Fatal(err)
		}
		e.restart()
		if err := e.converge(t.Context(), desired); err != nil {
			t.Fatal(err)
		}
		secret, err := secrets.Get(t.Context(), releaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if password == "" {
			password = string(secret.Data["password"])
		}
		if string(secret.Data["password"]) != password {
			t.Error("the password changed, although the chart looks it up")
		}

		// The correction applies what was rendered, and does not render.
		if err := secrets.Delete(t.Context(), releaseName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.await("drift", func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) == 1 })
		if err := e.converge(t.Context(), desired); err != nil {
			t.Fatal(err)
		}
		again, err := secrets.Get(t.Context(), releaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Data["token"], secret.Data["token"]) || string(again.Data["password"]) != password {
			t.Error("the repair made another Secret")
		}
		if got := e.journal.readsOf(lookedUp); got != revision+1 {
			t.Errorf("rendered %d times for %d revisions", got, revision+1)
		}
	}
	if newest := newestRelease(t.Context(), t, e.namespace); newest.Version != 3 {
		t.Errorf("revision %d after three changes", newest.Version)
	}
}
