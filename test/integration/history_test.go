// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestHistory: the status has all operations on the release, and each transition has one event.
func TestHistory(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	ns.AwaitReady("web")
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Service.Port = 81 })
	ns.Await("web", "upgraded", func(app *v1alpha1.DemoApp) bool { return apps.Revision(app) == 2 && apps.IsReady(app) })
	_, err := shared.Client.CoreV1().ConfigMaps(ns.Name).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"data": {"index.html": "changed"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	app := ns.Await("web", "corrected", func(app *v1alpha1.DemoApp) bool {
		return len(app.Status.History) > 0 && app.Status.History[0].Action == releasev1alpha1.HistoryRepair && apps.IsReady(app)
	})
	var got []string
	for _, entry := range app.Status.History {
		got = append(got, fmt.Sprintf("%s %s %s, revision %d, generation %d", entry.Action, entry.Outcome, entry.Reason, entry.Revision, entry.Generation))
		if entry.ChartVersion == "" || entry.Time.IsZero() {
			t.Errorf("entry without chart or time: %+v", entry)
		}
	}
	want := []string{
		"Repair Succeeded DriftDetected, revision 2, generation 2",
		"Upgrade Succeeded SpecGenerationChanged, revision 2, generation 2",
		"Install Succeeded SpecGenerationChanged, revision 1, generation 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if app.Status.Failures != nil {
		t.Errorf("failures: %+v", app.Status.Failures)
	}

	ns.Delete("web")
	ns.AwaitGone("web")
	reasons := []string{"Installed", "Upgraded", "DriftCorrected", "Audited", "Uninstalled"}
	for _, reason := range reasons {
		ns.AwaitEvent("web", reason)
	}
	events, err := shared.Client.EventsV1().Events(ns.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, event := range events.Items {
		if event.Regarding.Kind == "DemoApp" {
			counts[event.Reason]++
			if event.Series != nil {
				counts[event.Reason] += int(event.Series.Count)
			}
		}
	}
	for _, reason := range reasons {
		if counts[reason] != 1 {
			t.Errorf("%d events %s, want 1", counts[reason], reason)
		}
	}
}
