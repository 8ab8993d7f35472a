// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/cluster"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// TestCRDComesAndGoes: a kind whose CRD is missing when the operator starts waits for it. A second
// version of the CRD does not disturb the kind. When the CRD is deleted, the releases are
// uninstalled, and a new CRD is followed again.
func TestCRDComesAndGoes(t *testing.T) {
	s := newSpace(t)
	const waiting = `controller_kind_waiting{kind="late.v1.caches.example.com"} `
	awaitMetric(t, waiting+"1")

	for range 2 {
		installCRD(t, definition{kind: "Late"})
		awaitMetric(t, waiting+"0")
		s.create("Late", "a", map[string]any{"size": 3})
		s.await("Late", "a", "Ready True Healthy", "Deployed True InstallSuccessful")
		installCRD(t, definition{kind: "Late", versions: []string{"v2", "v1"}})
		s.set("Late", "a", map[string]any{"size": 4})
		s.await("Late", "a", "Ready True Healthy", "Deployed True UpgradeSuccessful")
		if size := s.size("a"); size != "4" {
			t.Errorf("size with a second version is %s", size)
		}

		if err := shared.Dynamic.Resource(definitions).Delete(t.Context(), "lates."+group, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}

		s.awaitGone("CRD", shared.Dynamic.Resource(definitions), "lates."+group)
		s.awaitSize("a", "")
		if records := s.records(); len(records) > 0 {
			t.Errorf("release records are left: %v", records)
		}
		awaitMetric(t, waiting+"1")
	}
}

// TestClusterScopedKind: the release of a cluster-scoped resource is in the namespace that the
// entry names.
func TestClusterScopedKind(t *testing.T) {
	s := newSpace(t)
	fleet := &space{t, fleetNamespace}
	name := s.name // Unique in the cluster.
	s.create("Fleet", name, map[string]any{"size": 3})
	s.await("Fleet", name, "Ready True Healthy")

	fleet.drift(name, "7")

	fleet.awaitSize(name, "3")
	s.deleteAndWait("Fleet", name)
	fleet.awaitSize(name, "")
}

// TestScopeNamespace: an entry with scope Namespace refuses objects outside the namespace of the
// release. An entry without it accepts them.
func TestScopeNamespace(t *testing.T) {
	s := newSpace(t)
	outside := map[string]any{"size": 3, "extra": []any{object("v1", "ConfigMap", fleetNamespace, s.name)}}

	s.create("Confined", "a", outside)

	refused := s.await("Confined", "a", "Ready False OutOfScope", "ReleaseFailed True InstallError", "Irreconcilable True ReconcileError")
	s.assertMessage(refused, "Ready", "ConfigMap "+fleetNamespace+"/"+s.name, s.name)
	s.set("Confined", "a", map[string]any{"extra": nil})
	s.await("Confined", "a", "Ready True Healthy", "Irreconcilable False Reconciled")
	s.create("Cache", "b", outside)
	s.await("Cache", "b", "Ready True Healthy")
	s.deleteAndWait("Cache", "b")
	_, err := shared.Client.CoreV1().ConfigMaps(fleetNamespace).Get(t.Context(), s.name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the object in another namespace is left: %v", err)
	}
}

// TestRest: releases at rest take no request.
func TestRest(t *testing.T) {
	s := newSpace(t)
	s.create("Cache", "a", map[string]any{"size": 3})
	s.await("Cache", "a", "Ready True Healthy")

	s.assertSilent("a release at rest", func() {
		s.patch(s.configMaps(), "a", map[string]any{"data": map[string]any{"of": "others"}})
	})
}

// TestPrunedStatus: a CRD that removes fields of the status costs no loop.
func TestPrunedStatus(t *testing.T) {
	s := newSpace(t)
	s.create("Pruned", "a", map[string]any{"size": 3})
	s.await("Pruned", "a", "Ready True Healthy")
	awaitEvent(t, s.name, "a", "StatusPruned")

	s.assertSilent("a release at rest", func() {})
	s.drift("a", "7")
	s.awaitSize("a", "3")

	if records := strings.Join(s.records(), ", "); records != "a.v1 deployed" {
		t.Errorf("records are %s", records)
	}
}

// TestStatusOfOthers: fields and conditions of other clients survive.
func TestStatusOfOthers(t *testing.T) {
	s := newSpace(t)
	s.create("Cache", "a", map[string]any{"size": 3})
	live := s.await("Cache", "a", "Ready True Healthy")
	conditions := []any{map[string]any{
		"type": "Backed", "status": "True", "reason": "Nightly", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}
	for _, c := range conditionsOf(live) {
		conditions = append(conditions, c)
	}
	s.patch(s.of("Cache"), "a", map[string]any{"status": map[string]any{"note": "theirs", "conditions": conditions}}, "status")

	s.set("Cache", "a", map[string]any{"size": 4})

	live = s.await("Cache", "a", "Ready True Healthy", "Deployed True UpgradeSuccessful", "Backed True Nightly")
	if note := field(live, "status", "note"); note != "theirs" {
		t.Errorf("the field of others is %q", note)
	}
}

// TestInvalidFileEndsTheStart: the operator reports all errors of the file with their lines, and
// ends with exit code 1.
func TestInvalidFileEndsTheStart(t *testing.T) {
	t.Parallel()
	file := write(t, strings.Join([]string{
		"- {group: caches.example.com, version: v1, kind: Cache, chart: no/such/chart}",
		"- {group: caches.example.com, version: v1, kind: Bucket, chart: " + chart + ", reconcilePeriod: soon}",
		"- {group: caches.example.com, version: v1, kind: Fleet, chart: " + chart + ", color: red}",
	}, "\n"))

	failing := cluster.LaunchOperator(t.Context(), t, shared, "--watches-file="+file, "--leader-elect=false")

	cluster.Eventually(t.Context(), t, "the operator has ended", func(context.Context) (bool, error) {
		select {
		case <-failing.Exited():
			return true, nil
		default:
			return false, nil
		}
	})
	if code := failing.Stop(); code != 1 {
		t.Errorf("exit code is %d", code)
	}
	for _, part := range []string{
		"file.yaml:1: entry 1 (caches.example.com/v1 Cache): chart: ", "file.yaml:2: entry 2 (caches.example.com/v1 Bucket): reconcilePeriod: ",
		"file.yaml:3: entry 3 (caches.example.com/v1 Fleet): color: is not a known field",
	} {
		if !strings.Contains(failing.Log(), part) {
			t.Errorf("the log lacks %q:\n%s", part, failing.Log())
		}
	}
}
