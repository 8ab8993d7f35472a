// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgradeWaitsForTheCluster: an upgrade whose templates demand a Secret or a kind is given up,
// and happens when they exist. The custom resource does not change.
func TestUpgradeWaitsForTheCluster(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		demand map[string]any
		create func(t *testing.T, namespace string)
	}{
		"a Secret": {map[string]any{"secret": "demanded"}, func(t *testing.T, namespace string) {
			t.Helper()
			_, err := shared.Client.CoreV1().Secrets(namespace).Create(t.Context(),
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demanded"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}},
		"a kind": {map[string]any{"kind": group + "/v1/Demanded"}, func(t *testing.T, _ string) {
			t.Helper()
			installCRD(t, definition{kind: "Demanded"})
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t)
			s.create("Cache", "a", map[string]any{"size": 3})
			s.await("Cache", "a", "Ready True Healthy")
			test.demand["size"] = 4
			s.set("Cache", "a", test.demand)
			failed := s.await("Cache", "a", "Ready False RetriesExhausted", "Failed True RenderFailed")
			s.assertMessage(failed, "Ready", "the next attempt is at ")

			test.create(t, s.name)

			s.awaitSize("a", "4")
			live := s.await("Cache", "a", "Ready True Healthy", "Deployed True UpgradeSuccessful")
			if live.GetGeneration() != failed.GetGeneration() {
				t.Errorf("generation is %d, was %d", live.GetGeneration(), failed.GetGeneration())
			}
		})
	}
}
