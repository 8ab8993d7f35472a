// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/example/demoapp-controller/pkg/helm"
)

// tally counts the results of mutations.
type tally struct {
	mu                                 sync.Mutex
	seen, refused, withoutEffect, left int
}

func (c *tally) add(counter *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*counter++
}

// TestEveryLeaf changes and removes each field of each object of the charts. The engine observes
// exactly the changed objects, and corrects them. Each round changes every object of a release in
// one way.
//
// A changed key of a list item, of a container or a port for instance, is a removal and an addition
// for the API server. The engine restores the removed item, and keeps the added one.
func TestEveryLeaf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		chart  string
		values values
		// helm3 installs the release as Helm 3 does.
		helm3 bool
	}{
		{chart: "plain", values: values{"labels": values{"tier": "front"}}},
		{chart: "hooks"},
		{chart: "crds"},
		{chart: "umbrella"},
		{chart: "forms"},
		{chart: "keep"},
		{chart: "places"},
		{chart: "dynamic"},
		{chart: "changing", values: values{"version": "v2", "kind": "Secret"}},
		{chart: "immutable"},
		{chart: "schema"},
		{chart: "tests"},
		{chart: "nulls"},
		{chart: "booleans"},
		{chart: "webhooks"},
		{chart: "policies"},
		{chart: "scaled"},
		{name: "taken over from Helm 3", chart: "changing", helm3: true},
		{chart: "many", values: values{"count": 1}},
	}
	for _, test := range tests {
		t.Run(cmp.Or(test.name, test.chart), func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			makeNamespace(t, namespace+otherNamespace)
			e := newEngine(t, namespace, everywhere)
			desired := e.desired(readChart(t, test.chart), test.values)
			revisions := 1
			if test.helm3 {
				revisions = 2
				if err := byHelm("", true, test.chart, test.values).do(t, e); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.converge(t.Context(), desired); err != nil {
				t.Fatal(err)
			}
			subjects := subjectsOf(t, e)
			var counts tally
			for round := 0; mutateAll(t, e, desired, subjects, round, &counts); round++ {
			}
			t.Logf("%d mutations were observed and corrected; %d were refused by the API server, %d had no effect; %d left something behind",
				counts.seen, counts.refused, counts.withoutEffect, counts.left)
			if counts.seen < 3*len(subjects) {
				t.Errorf("only %d mutations of %d objects", counts.seen, len(subjects))
			}
			if newest := newestRelease(t.Context(), t, namespace); newest.Version != revisions {
				t.Errorf("corrections made %d revisions", newest.Version-revisions)
			}
		})
	}
}

// mutateAll mutates each object in one way, and lets the engine correct them. It returns false when
// no mutation is left.
func mutateAll(t *testing.T, e *engine, desired helm.Release, subjects []*subject, round int, counts *tally) bool {
	t.Helper()
	var (
		mu      sync.Mutex
		mutated = map[helm.ObjectReference]mutation{}
		group   errgroup.Group
		found   bool
	)
	group.SetLimit(8)
	for _, s := range subjects {
		if round >= len(s.mutations) {
			continue
		}
		found = true
		group.Go(func() error {
			ok, err := s.mutate(t, s.mutations[round], counts)
			if ok {
				mu.Lock()
				defer mu.Unlock()
				mutated[s.ObjectReference] = s.mutations[round]
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(mutated) == 0 {
		return found
	}
	doubted := sets.New[helm.ObjectReference]()
	e.await(fmt.Sprint(mutated), func(snapshot helm.Snapshot) bool {
		drifted := sets.New[helm.ObjectReference]()
		for _, drift := range snapshot.Drifts {
			if _, ok := mutated[drift.Object]; ok {
				drifted.Insert(drift.Object)
			} else {
				doubted.Insert(drift.Object)
			}
		}
		return drifted.Len() == len(mutated)
	})
	for _, s := range subjects {
		if doubted.Has(s.ObjectReference) {
			s.assertDoubtful(t)
		}
	}
	correct(t, e, desired, mutated)
	for _, s := range subjects {
		if mutation, ok := mutated[s.ObjectReference]; ok {
			s.verify(t, e, mutation, counts)
		}
	}
	if err := e.converge(t.Context(), desired); err != nil {
		t.Fatal(err)
	}
	return true
}

// correct lets the engine correct the drift, and asserts that the engine does nothing else.
func correct(t *testing.T, e *engine, desired helm.Release, mutated map[helm.ObjectReference]mutation) {
	t.Helper()
	for range maxPasses {
		e.journal.take()
		err := e.pass(t.Context(), desired)
		if e.last.Action != helm.ActionRepair {
			t.Fatalf("the engine decided to %s because of %s, error %v", e.last.Action, e.last.Cause, err)
		}
		if err == nil {
			return
		}
		var refused *helm.RefusedError
		if !errors.As(err, &refused) {
			t.Fatalf("repair: %v", err)
		}
		t.Errorf("%s of %s is not corrected: %v", mutated[refused.Object], refused.Object, refused.Err)
		// Removed, so that the other objects can be tested.
		if err := clientOf(t, refused.Object).Delete(t.Context(), refused.Object.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.await("deletion", func(snapshot helm.Snapshot) bool {
			return slices.Contains(snapshot.Drifts, helm.Drift{Object: refused.Object, Kind: helm.DriftMissing})
		})
	}
	t.Fatal("corrections keep failing")
}

// mutate makes the change as another client, and reports whether the object changed.
func (s *subject) mutate(t *testing.T, m mutation, counts *tally) (bool, error) {
	t.Helper()
	for _, patch := range m.patches(t) {
		changed, err := s.client.Patch(t.Context(), s.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: otherManager})
		switch {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsInternalError(err):
			continue
		case err != nil:
			return false, fmt.Errorf("%s of %s: %w", m, s.ObjectReference, err)
		}
		want, _ := m.leaf.at(s.pristine.Object)
		got, _ := m.leaf.at(changed.Object)
		// A default may replace a removed field. If the value is the same, no correction need
		// follow, but the field may have another owner.
		if reflect.DeepEqual(want, got) && reflect.DeepEqual(managers(s.pristine.GetManagedFields()), managers(changed.GetManagedFields())) {
			counts.add(&counts.withoutEffect)
			return false, nil
		}
		counts.add(&counts.seen)
		return true, nil
	}
	counts.add(&counts.refused)
	return false, nil
}

// assertDoubtful asserts that a controller wrote within the second of the engine's apply. A second
// write in it leaves no trace in managedFields, so the engine cannot know whose fields changed, and
// applies the object again.
func (s *subject) assertDoubtful(t *testing.T) {
	t.Helper()
	live, err := s.client.Get(t.Context(), s.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var applied, others []int64
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == helm.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply {
			applied = append(applied, entry.Time.Unix())
		} else {
			others = append(others, entry.Time.Unix())
		}
	}
	if len(applied) != 1 || !slices.Contains(others, applied[0]) {
		t.Errorf("%s drifted without a change", s.ObjectReference)
	}
}

// verify asserts that the object matches its manifest again. Foreign additions stay. They would
// disturb later rounds, so the object is then recreated.
func (s *subject) verify(t *testing.T, e *engine, m mutation, counts *tally) {
	t.Helper()
	live, err := s.client.Get(t.Context(), s.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if missing := lacks(s.manifest, s.pristine.Object, live.Object, ""); missing != "" {
		t.Errorf("%s of %s: %s is not corrected", m, s.ObjectReference, missing)
	}
	was, is := normalize(s.pristine), normalize(live)
	for _, object := range []map[string]any{was, is} {
		unstructured.RemoveNestedField(object, "metadata", "generation")
	}
	if reflect.DeepEqual(was, is) {
		return
	}
	counts.add(&counts.left)
	if err := s.client.Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.await("deletion", func(snapshot helm.Snapshot) bool {
		return slices.Contains(snapshot.Drifts, helm.Drift{Object: s.ObjectReference, Kind: helm.DriftMissing})
	})
}

// TestOtherAlternatives: another client sets the field of an item that excludes the desired one, as "kubectl
// set env" does. The desired field replaces it, and items that other clients added stay.
func TestOtherAlternatives(t *testing.T) {
	t.Parallel()
	e := newEngine(t, newNamespace(t))
	desired := e.desired(workload("env: [{name: KEY, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]\n"+
		"      volumes: [{name: data, configMap: {name: a}}]"), nil)
	if err := e.converge(t.Context(), desired); err != nil {
		t.Fatal(err)
	}
	const edit = `[{"op": "replace", "path": "/spec/template/spec/containers/0/env", "value": [{"name": "MORE", "value": "more"}, {"name": "KEY", "value": "value"}]},
		{"op": "replace", "path": "/spec/template/spec/volumes", "value": [{"name": "data", "emptyDir": {}}]}]`
	_, err := shared.Client.AppsV1().Deployments(e.namespace).
		Patch(t.Context(), "web", types.JSONPatchType, []byte(edit), metav1.PatchOptions{FieldManager: "kubectl-set"})
	if err != nil {
		t.Fatal(err)
	}
	e.await("the change", func(s helm.Snapshot) bool { return len(s.Drifts) > 0 })
	snapshot, err := e.Observe(t.Context(), e.key(), e.baseline)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := e.Explain(t.Context(), desired, e.baseline, snapshot.Drifts); err != nil || len(found) != 1 || len(found[0].Fields) == 0 {
		t.Errorf("the drift is explained by %v, error %v", found, err)
	}

	if err := e.converge(t.Context(), desired); err != nil {
		t.Fatal(err)
	}

	pod := &liveWorkload(t, e.namespace).Spec.Template.Spec
	variables := map[string]corev1.EnvVar{}
	for _, variable := range pod.Containers[0].Env {
		variables[variable.Name] = variable
	}
	if got := variables["KEY"]; got.Value != "" || got.ValueFrom == nil || variables["MORE"].Value != "more" {
		t.Errorf("the variables are %v", pod.Containers[0].Env)
	}
	if pod.Volumes[0].ConfigMap == nil {
		t.Errorf("the volume is %v", pod.Volumes[0])
	}
	e.assertAsDesired(desired)
}
