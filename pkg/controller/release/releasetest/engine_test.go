// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasetest_test

import (
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

var _ release.Engine = (*releasetest.Engine)(nil)

var key = cache.ObjectName{Namespace: "ns", Name: "web"}

func TestDriftIsFoundAndRepaired(t *testing.T) {
	engine := releasetest.New(time.Unix(0, 0), func(string) {})
	desired := helm.Release{Namespace: key.Namespace, Name: key.Name, Chart: testChart(t)}
	baseline := helm.Baseline{Revision: 1, Inventory: execute(t, engine, desired, helm.Baseline{}, helm.ActionInstall)}

	engine.Mutate(key, releasetest.Edit("ConfigMap"))

	execute(t, engine, desired, baseline, helm.ActionRepair)
	if len(engine.Repaired) != 1 || engine.Repaired[0].Object.Kind != "ConfigMap" {
		t.Errorf("got the drift %v, want that of the ConfigMap", engine.Repaired)
	}
	execute(t, engine, desired, baseline, helm.ActionNone)
}

// execute makes a pass as a lifecycle does, and returns the inventory of the release.
func execute(
	t *testing.T, engine *releasetest.Engine, desired helm.Release, baseline helm.Baseline, want helm.Action,
) []helm.InventoryEntry {
	t.Helper()
	observed, err := engine.Observe(t.Context(), desired.Key(), baseline)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := engine.Decide(desired, observed)
	if err != nil || decision.Action != want {
		t.Fatalf("got %s and error %v, want %s", decision.Action, err, want)
	}
	if want == helm.ActionNone {
		return baseline.Inventory
	}
	deployed, err := engine.Execute(t.Context(), desired, decision, baseline)
	if err != nil {
		t.Fatal(err)
	}
	return deployed.Inventory
}

func testChart(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml": {Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
