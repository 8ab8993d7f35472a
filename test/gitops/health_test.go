// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestHealthOfStates lists the health of each sort of status.
func TestHealthOfStates(t *testing.T) {
	tests := []struct{ name, object, status, message string }{
		{
			name: "no status", status: progressing, message: "The operator has not reconciled the resource yet",
			object: `metadata: {generation: 1}`,
		},
		{
			name: "status before the first pass", status: progressing, message: "The operator has not reconciled this generation yet",
			object: `{metadata: {generation: 1}, status: {observedGeneration: -1}}`,
		},
		{
			name: "new generation", status: progressing, message: "The operator has not reconciled this generation yet",
			object: `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "True", reason: Healthy, observedGeneration: 1}]}}`,
		},
		{
			name: "ready", status: healthy, message: "Revision 1 is deployed and healthy",
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "True", reason: Healthy, observedGeneration: 1, message: Revision 1 is deployed and healthy}]}}`,
		},
		{
			name: "pods start", status: progressing, message: "0/1",
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "False", reason: Progressing, observedGeneration: 1, message: 0/1},
				{type: Reconciling, status: "True", reason: Progressing, observedGeneration: 1, message: 0/1}]}}`,
		},
		{
			name: "a user must act", status: degraded, message: "refused",
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "False", reason: Refused, observedGeneration: 1, message: refused},
				{type: Stalled, status: "True", reason: Refused, observedGeneration: 1, message: refused}]}}`,
		},
		{
			name: "a user must act on a change that is not observed", status: progressing, message: "refused",
			object: `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "False", reason: Refused, observedGeneration: 2, message: refused},
				{type: Stalled, status: "True", reason: Refused, observedGeneration: 2, message: refused}]}}`,
		},
		{
			name: "a user acted", status: progressing, message: "The operator has not reconciled this generation yet",
			object: `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "False", reason: Refused, observedGeneration: 1, message: refused},
				{type: Stalled, status: "True", reason: Refused, observedGeneration: 1, message: refused}]}}`,
		},
		{
			name: "suspended without a change", status: suspended, message: "suspended",
			object: `{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [
				{type: Suspended, status: "True", reason: SuspendedBySpec, observedGeneration: 2, message: suspended},
				{type: Ready, status: "True", reason: Healthy, observedGeneration: 2}]}}`,
		},
		{
			name: "suspended, and an object is missing", status: degraded, message: "missing",
			object: `{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [
				{type: Suspended, status: "True", reason: SuspendedBySpec, observedGeneration: 2, message: suspended},
				{type: Stalled, status: "True", reason: Unhealthy, observedGeneration: 2, message: missing},
				{type: Ready, status: "False", reason: Unhealthy, observedGeneration: 2}]}}`,
		},
		{
			name: "resumed", status: progressing, message: "The operator has not reconciled this generation yet",
			object: `{metadata: {generation: 3}, status: {observedGeneration: 2, conditions: [
				{type: Suspended, status: "True", reason: SuspendedBySpec, observedGeneration: 2, message: suspended},
				{type: Ready, status: "True", reason: Healthy, observedGeneration: 2}]}}`,
		},
		{
			name: "the window is closed", status: suspended, message: "opens at 02:00",
			object: `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "False", reason: OutsideWindow, observedGeneration: 2, message: "opens at 02:00"},
				{type: Reconciling, status: "True", reason: OutsideWindow, observedGeneration: 2}]}}`,
		},
		{
			name: "queued for a newer chart", status: progressing, message: "waits for its turn",
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "False", reason: RolloutQueued, observedGeneration: 1},
				{type: Reconciling, status: "True", reason: RolloutQueued, observedGeneration: 1, message: waits for its turn}]}}`,
		},
		{
			name: "paused", status: suspended, message: "annotation",
			object: `{metadata: {generation: 1}, status: {conditions: [
				{type: Paused, status: "True", reason: PauseReconcileAnnotationTrue, message: annotation},
				{type: Ready, status: "True", reason: Healthy}]}}`,
		},
		{
			name: "suspended Backup", status: suspended, message: "no runs are scheduled",
			object: `{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [
				{type: Scheduled, status: "False", reason: Suspended, observedGeneration: 2, message: no runs are scheduled},
				{type: Ready, status: "True", reason: Healthy, observedGeneration: 2}]}}`,
		},
		{
			name: "being deleted", status: progressing, message: "The resource is being deleted",
			object: `{metadata: {generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {observedGeneration: 1, conditions: [
				{type: Ready, status: "True", reason: Healthy, observedGeneration: 1}]}}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := parse(t, "object", test.object)

			got := assess(t, script(t), object)

			if got.Status != test.status || got.Message != test.message {
				t.Errorf("got %+v, expected %s: %s", got, test.status, test.message)
			}
		})
	}
}

// TestHealthAgreesWithKstatus compares the script with kstatus for the statuses that the pages of
// docs show, and for objects of each kind from a cluster.
func TestHealthAgreesWithKstatus(t *testing.T) {
	objects := append(documented(t), recorded(t)...)
	if len(objects) < 40 {
		t.Fatalf("found %d statuses, expected at least 40", len(objects))
	}
	seen := map[string]int{}
	for _, object := range objects {
		expected, err := status.Compute(&unstructured.Unstructured{Object: object.content})
		if err != nil {
			t.Errorf("%s: %v", object.where, err)
			continue
		}

		got := assess(t, script(t), object.content)

		seen[got.Status]++
		if !slices.Contains(agreeing[expected.Status], got.Status) {
			t.Errorf("%s: Argo CD shows %s (%s), kstatus says %s (%s)", object.where, got.Status, got.Message, expected.Status, expected.Message)
		}
	}
	for _, state := range []string{healthy, progressing, degraded, suspended} {
		if seen[state] == 0 {
			t.Errorf("no status is %s: %v", state, seen)
		}
	}
}

// agreeing lists the allowed results of the script for each result of kstatus, which does not know
// suspended objects.
var agreeing = map[status.Status][]string{
	status.CurrentStatus:     {healthy, suspended},
	status.InProgressStatus:  {progressing, suspended},
	status.FailedStatus:      {degraded},
	status.TerminatingStatus: {progressing},
}

// TestConfigMapHasTheScript holds that Argo CD gets the script that is tested here, for each kind.
func TestConfigMapHasTheScript(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "artifacts", "argocd", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var configMap struct{ Data map[string]string }
	if err := yaml.Unmarshal(content, &configMap); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for key, value := range configMap.Data {
		if value != script(t) {
			t.Errorf("%s is not health.lua; run: make generate", key)
		}
		kinds[strings.TrimPrefix(key, "resource.customizations.health.")] = true
	}
	for _, object := range recorded(t) {
		group, _, _ := strings.Cut(object.content["apiVersion"].(string), "/")
		if key := group + "_" + object.content["kind"].(string); !kinds[key] {
			t.Errorf("the ConfigMap has no health check for %s", key)
		}
	}
}

// parse returns the object of a YAML text, which is at the place where.
func parse(t *testing.T, where, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", "")), &object); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return integers(object).(map[string]any)
}

// integers replaces whole floats, which a JSON parser makes, by the integers that a client of the
// API server sees.
func integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			value[key] = integers(item)
		}
	case []any:
		for i, item := range value {
			value[i] = integers(item)
		}
	case float64:
		if value == float64(int64(value)) {
			return int64(value)
		}
	}
	return value
}
