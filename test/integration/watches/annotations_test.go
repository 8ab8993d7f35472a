// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDisableHooks: each annotation skips the hooks of one action. The hooks of the chart stay when they have run.
func TestDisableHooks(t *testing.T) {
	t.Parallel()
	for _, disabled := range []string{"none", "install", "upgrade", "uninstall"} {
		t.Run("of "+disabled, func(t *testing.T) {
			s := newSpace(t)
			assertHook := func(action, name string) {
				t.Helper()
				if ran := s.exists("a-" + name); ran == (action == disabled) {
					t.Errorf("hook %s ran: %t", name, ran)
				}
			}
			s.create("Cache", "a", map[string]any{"hooks": true}, sdk+disabled+"-disable-hooks", "true")
			s.await("Cache", "a", "Ready True Healthy")
			assertHook("install", "pre-install")
			s.set("Cache", "a", map[string]any{"size": 4})
			s.await("Cache", "a", "Ready True Healthy", "Deployed True UpgradeSuccessful")
			assertHook("upgrade", "pre-upgrade")

			s.deleteAndWait("Cache", "a")

			assertHook("uninstall", "pre-delete")
		})
	}
}

// exists reports whether a ConfigMap exists.
func (s *space) exists(name string) bool {
	s.t.Helper()
	list, err := s.configMaps().List(s.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list.Items) > 0
}

// TestDescriptions: the record of a revision has the description of the annotation.
func TestDescriptions(t *testing.T) {
	s := newSpace(t)
	s.create("Cache", "a", map[string]any{"size": 3}, sdk+"install-description", "first", sdk+"upgrade-description", "second")
	s.await("Cache", "a", "Ready True Healthy")
	s.set("Cache", "a", map[string]any{"size": 4})
	s.await("Cache", "a", "Ready True Healthy", "Deployed True UpgradeSuccessful")

	if first, second := s.description("a", 1), s.description("a", 2); first != "first" || second != "second" {
		t.Errorf("descriptions are %q and %q", first, second)
	}
}

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

// TestRollbackForce: a failed upgrade is rolled back, whatever the annotation is.
func TestRollbackForce(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"true", "false"} {
		t.Run(value, func(t *testing.T) {
			s := newSpace(t)
			s.create("Hasty", "a", map[string]any{"selector": "one"}, sdk+"rollback-force", value)
			s.await("Hasty", "a", "Ready True Healthy")

			s.set("Hasty", "a", map[string]any{"selector": "two", "size": 4})

			s.await("Hasty", "a", "Ready False RolledBack", "ReleaseFailed True UpgradeError", "Irreconcilable True ReconcileError",
				"Deployed True UpgradeSuccessful")
		})
	}
}

// TestUninstallWait: with the annotation, the deletion waits until all objects are gone, and says for which it waits.
func TestUninstallWait(t *testing.T) {
	s := newSpace(t)
	s.create("Cache", "a", map[string]any{"size": 3}, sdk+"uninstall-wait", "true")
	s.await("Cache", "a", "Ready True Healthy")
	s.patch(s.configMaps(), "a", map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/others"}}})

	s.delete("Cache", "a")

	waiting := s.await("Cache", "a", "Ready False UninstallWaits")
	s.assertMessage(waiting, "Ready", "ConfigMap "+s.name+"/a")
	s.patch(s.configMaps(), "a", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	s.awaitGone("Cache", s.of("Cache"), "a")
}

// TestReconcilePeriod: without watches of its objects, drift is corrected at the period of the annotation.
func TestReconcilePeriod(t *testing.T) {
	s := newSpace(t)
	s.create("Unwatched", "a", map[string]any{"size": 3}, sdk+"reconcile-period", "10s")
	s.create("Unwatched", "b", map[string]any{"size": 3}, sdk+"reconcile-period", "soon")
	s.await("Unwatched", "a", "Ready True Healthy")
	s.await("Unwatched", "b", "Ready True Healthy")
	s.drift("b", "7")

	s.drift("a", "7")

	s.awaitSize("a", "3")
	if size := s.size("b"); size != "7" {
		t.Errorf("size without a valid annotation is %s", size)
	}
	if event := awaitEvent(t, s.name, "b", "InvalidReconcilePeriod"); !strings.Contains(event.Note, `"soon"`) {
		t.Errorf("event is %s", event.Note)
	}
}

// TestPaused: a paused resource keeps its release as it is, and waits with its deletion.
func TestPaused(t *testing.T) {
	s := newSpace(t)
	s.create("Cache", "a", map[string]any{"size": 3})
	s.await("Cache", "a", "Ready True Healthy")
	s.annotate("Cache", "a", "demo.example.com/paused", "true")
	s.await("Cache", "a", "Paused True PauseReconcileAnnotationTrue")

	s.set("Cache", "a", map[string]any{"size": 4})
	s.delete("Cache", "a")

	s.await("Cache", "a", "Ready False PauseReconcileAnnotationTrue", "Paused True PauseReconcileAnnotationTrue")
	if size := s.size("a"); size != "3" {
		t.Errorf("size of a paused resource is %s", size)
	}
	s.annotate("Cache", "a", "demo.example.com/paused", "false")
	s.awaitGone("Cache", s.of("Cache"), "a")
	s.awaitSize("a", "")
}

// TestRequests: the annotations requested-at and force-at work as for DemoApps.
func TestRequests(t *testing.T) {
	s := newSpace(t)
	s.create("Cache", "a", map[string]any{"size": 3})
	s.await("Cache", "a", "Ready True Healthy")

	s.annotate("Cache", "a", "demo.example.com/requested-at", "one")

	s.awaitThat("Cache", "a", "requested-at is handled", func(live *unstructured.Unstructured) bool {
		return field(live, "status", "lastHandledRequestedAt") == "one"
	})
	s.patch(s.of("Cache"), "a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		"demo.example.com/requested-at": "two", "demo.example.com/force-at": "two",
	}}})
	forced := s.awaitThat("Cache", "a", "force-at is handled", func(live *unstructured.Unstructured) bool {
		return field(live, "status", "lastHandledForceAt") == "two"
	})
	if revision := field(forced, "status", "deployedRelease", "revision"); revision != "2" {
		t.Errorf("revision is %s", revision)
	}
}
