// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/expect"
)

// TestState: the state in lists is the verdict of kubectl demoapp why, derived from the object's own status.
func TestState(t *testing.T) {
	const person, waits = inspect.StateNeedsPerson, inspect.StateNotReady
	tests := map[string]struct {
		reason, message, conditions string
		want                        inspect.State
	}{
		"pods that start":      {"Progressing", `Deployment "web": Available: 0/1`, "", waits},
		"image":                {"Progressing", `Deployment "web": Available: 0/1: pod web-1: container "web": ImagePullBackOff: no`, "", person},
		"volume":               {"Progressing", `Ready: 0/1: pod db-0: Unschedulable: pod has unbound immediate PersistentVolumeClaims`, "", waits},
		"quota":                {"Refused", "exceeded quota: few", "", person},
		"missing Secret":       {"SecretNotFound", `Secret "keys" does not exist`, "", person},
		"dependency":           {"WaitingForDependency", `waits for DemoApp "older"`, "", waits},
		"closed window":        {"OutsideWindow", `opens at 02:00; pod web-1: Evicted: no`, "", waits},
		"halted rollout":       {"RolloutHalted", "too many failed", "", person},
		"invalid values":       {"Progressing", "", `, {type: Stalled, status: "True", reason: A, message: b}`, person},
		"suspension":           {"Progressing", "", `, {type: Suspended, status: "True", reason: SuspendedBySpec, message: m}`, person},
		"suspension, if ready": {"Healthy", "", `, {type: Suspended, status: "True", reason: SuspendedBySpec, message: m}`, inspect.StateReady},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := notReady(tt.reason, tt.message, tt.conditions)
			if tt.want == inspect.StateReady {
				text = strings.Replace(text, `"False"`, `"True"`, 1)
			}
			content, err := yaml.YAMLToJSON([]byte(text))
			expect.NoError(t, err)
			object := &unstructured.Unstructured{}
			expect.NoError(t, object.UnmarshalJSON(content))

			expect.Equal(t, "state", tt.want.String(), inspect.Summarize(object).State().String())
		})
	}
}

// TestChartOfSummary: the operators of Helm 3 write only the name of the release.
func TestChartOfSummary(t *testing.T) {
	for written, want := range map[string]string{
		"{name: web}": "",
		"{name: web, chart: cache, chartVersion: 1.2.0, revision: 3}": "cache@1.2.0",
	} {
		object := objectOf(t, "{apiVersion: cache.my.domain/v1, kind: Memcached, metadata: {name: web}, status: {deployedRelease: "+written+"}}")

		expect.Equal(t, written, want, inspect.Summarize(object).Chart)
	}
}
