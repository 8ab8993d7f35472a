// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

var key = cache.ObjectName{Namespace: "ns", Name: "a"}

// observer is an engine that returns a fixed snapshot.
type observer struct {
	snapshot   helm.Snapshot
	observeErr error
	decideErr  error

	asked    cache.ObjectName
	baseline helm.Baseline
}

// Observe implements Observer.
func (o *observer) Observe(_ context.Context, release cache.ObjectName, baseline helm.Baseline) (helm.Snapshot, error) {
	o.asked, o.baseline = release, baseline
	return o.snapshot, o.observeErr
}

// Decide implements Observer as the engine does.
func (o *observer) Decide(desired helm.Release, observed helm.Snapshot) (helm.Decision, error) {
	if o.decideErr != nil {
		return helm.Decision{}, o.decideErr
	}
	inputs, err := desired.InputDigest()
	if err != nil {
		return helm.Decision{}, err
	}
	return helm.Decide(inputs, observed, time.Unix(1000, 0), time.Minute), nil
}

func testChart(t *testing.T) *chart.Chart { return chartVersion(t, "1.0.0") }

// chartVersion is a chart without templates.
func chartVersion(t *testing.T, version string) *chart.Chart {
	t.Helper()
	loaded, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml": {Data: []byte("apiVersion: v2\nname: web\nversion: " + version + "\n")},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// desired returns a release, identified by a value.
func desired(t *testing.T, message string) *helm.Release {
	t.Helper()
	return &helm.Release{Namespace: key.Namespace, Name: key.Name, Chart: testChart(t), Values: map[string]any{"message": message}}
}

func digest(t *testing.T, release *helm.Release) string {
	t.Helper()
	inputs, err := release.InputDigest()
	if err != nil {
		t.Fatal(err)
	}
	return inputs
}

func object(kind, name string) helm.ObjectReference {
	return helm.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: key.Namespace, Name: name}
}
