// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm/chart"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sample is a minimal object with a release, for tests of pure functions.
type sample struct {
	Status releasev1alpha1.ReleaseStatus
}

func newSample(change ...func(*sample)) *sample {
	s := &sample{Status: releasev1alpha1.ReleaseStatus{ObservedGeneration: -1}}
	for _, c := range change {
		c(s)
	}
	return s
}

// condition returns a change that sets a condition in the status of a sample.
func condition(conditionType string, status metav1.ConditionStatus, reason string) func(*sample) {
	return func(s *sample) {
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: status, Reason: reason, Message: reason + " message",
			LastTransitionTime: metav1.NewTime(began),
		})
	}
}

// testChart is a chart without templates.
func testChart(t *testing.T, version string) *chart.Chart {
	t.Helper()
	chart, err := chart.LoadFS(fstest.MapFS{
		"Chart.yaml": {Data: []byte("apiVersion: v2\nname: demo-app\nversion: " + version + "\n")},
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	return chart
}
