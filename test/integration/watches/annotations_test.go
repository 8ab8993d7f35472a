// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgradeForce: the annotation has an upgrade replace an object whose change is refused.
func TestUpgradeForce(t *testing.T) {
	s := newSpace(t)
	uid := func() string {
		t.Helper()
		found, err := shared.Client.AppsV1().Deployments(s.name).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(found.UID)
	}
	s.create("Hasty", "a", map[string]any{"selector": "one"})
	s.await("Hasty", "a", "Ready True Healthy")
	before := uid()
	s.set("Hasty", "a", map[string]any{"selector": "two"})
	refused := s.await("Hasty", "a", "ReleaseFailed True UpgradeError")
	s.assertMessage(refused, "ReleaseFailed", "Deployment", "spec.selector")
	if uid() != before {
		t.Error("the Deployment was replaced without the annotation")
	}

	s.annotate("Hasty", "a", sdk+"upgrade-force", "true")
	s.set("Hasty", "a", map[string]any{"selector": "three"})

	s.await("Hasty", "a", "Ready True Healthy", "Deployed True UpgradeSuccessful")
	if uid() == before {
		t.Error("the Deployment was not replaced")
	}
}
