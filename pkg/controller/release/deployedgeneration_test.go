// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/expect"
)

func TestDeployedGeneration(t *testing.T) {
	deployed := func(is metav1.ConditionStatus, generation int64) func(*sample) {
		return func(app *sample) {
			app.Status.Conditions = []metav1.Condition{{Type: releasev1alpha1.ConditionDeployed, Status: is, ObservedGeneration: generation}}
		}
	}
	past := func(entries ...releasev1alpha1.HistoryEntry) func(*sample) {
		return func(app *sample) { app.Status.History = entries }
	}
	entry := func(action releasev1alpha1.HistoryAction, outcome releasev1alpha1.HistoryOutcome, generation int64) releasev1alpha1.HistoryEntry {
		return releasev1alpha1.HistoryEntry{Action: action, Outcome: outcome, Generation: generation}
	}
	installed := entry(releasev1alpha1.HistoryInstall, releasev1alpha1.HistorySucceeded, 1)
	tests := []struct {
		name string
		app  []func(*sample)
		want int64
	}{
		{"no history", nil, 0},
		{"deployed", []func(*sample){deployed("True", 3), past(installed)}, 3},
		{"next upgrade fails", []func(*sample){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryUpgrade, releasev1alpha1.HistoryFailed, 3), installed),
		}, 1},
		{"next upgrade is rolled back", []func(*sample){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryRollback, releasev1alpha1.HistorySucceeded, 3), installed),
		}, 1},
		{"repaired while the next upgrade fails", []func(*sample){
			deployed("False", 3), past(entry(releasev1alpha1.HistoryRepair, releasev1alpha1.HistorySucceeded, 3), installed),
		}, 1},
		{"next upgrade is unhealthy", []func(*sample){
			deployed("False", 2), past(entry(releasev1alpha1.HistoryUpgrade, releasev1alpha1.HistorySucceeded, 2), installed),
		}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, "generation", test.want, deployedGeneration(newSample(test.app...).Status))
		})
	}
}
