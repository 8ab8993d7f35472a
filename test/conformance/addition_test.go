// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/example/demoapp-controller/pkg/helm"
)

// additions are fields that another client adds, by kind. Those under the empty kind are for all
// kinds.
var additions = map[string]string{
	"":           `{"metadata": {"labels": {"example.com/added": "label"}, "annotations": {"example.com/added": "annotation"}}}`,
	"ConfigMap":  `{"data": {"added": "by another client"}}`,
	"Secret":     `{"data": {"added": "YWRkZWQ="}}`,
	"Deployment": `{"spec": {"minReadySeconds": 7, "template": {"metadata": {"annotations": {"example.com/added": "deeply"}}}}}`,
	"Service":    `{"spec": {"publishNotReadyAddresses": true}}`,
	"Role":       `{"metadata": {"finalizers": ["example.com/added"]}}`,
}

// TestForeignFieldsAreKept adds fields to each object of the charts as another client. The fields
// are no drift, cause no request, and survive the correction of the object.
func TestForeignFieldsAreKept(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"plain", "umbrella", "forms", "keep", "places", "dynamic", "changing", "many"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			makeNamespace(t, namespace+otherNamespace)
			e := newEngine(t, namespace, everywhere)
			desired := e.desired(readChart(t, chart), nil)
			if err := e.converge(t.Context(), desired); err != nil {
				t.Fatal(err)
			}
			subjects := subjectsOf(t, e)
			// A second engine has written nothing, so it reports only the writes of other clients.
			e.restart()
			e.assertAsDesired(desired)
			e.journal.take()

			before := e.heard()
			patchAll(t, subjects, func(s *subject) []string { return []string{additions[""], additions[s.Kind]} })
			e.assertAsDesired(desired)
			// The watch reports changes in order. When it has reported this change of an object, it
			// has reported the earlier additions, too.
			const own = `{"metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}}`
			patchAll(t, subjects, func(*subject) []string { return []string{own} })
			e.await("drift of all", func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) == len(subjects) })
			if heard := e.heard() - before; heard > len(subjects) {
				t.Errorf("the engine reported %d changes, want at most one for each of %d objects", heard, len(subjects))
			}
			if requests := e.journal.take(); len(requests) > 0 {
				t.Errorf("the engine wrote %v", requests)
			}

			if err := e.converge(t.Context(), desired); err != nil {
				t.Fatal(err)
			}
			for _, s := range subjects {
				s.assertAdded(t)
			}
		})
	}
}

// patchAll patches each object as another client.
func patchAll(t testing.TB, subjects []*subject, patches func(*subject) []string) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for _, s := range subjects {
		group.Go(func() error {
			for _, patch := range patches(s) {
				if patch == "" {
					continue
				}
				_, err := s.client.Patch(t.Context(), s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: otherManager})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// assertAdded asserts that the object is corrected and still has the additions.
func (s *subject) assertAdded(t *testing.T) {
	t.Helper()
	live, err := s.client.Get(t.Context(), s.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if live.GetAnnotations()["meta.helm.sh/release-name"] != releaseName {
		t.Errorf("%s was not corrected", s.ObjectReference)
	}
	for _, addition := range []string{additions[""], additions[s.Kind]} {
		var added unstructured.Unstructured
		if addition == "" {
			continue
		}
		if err := json.Unmarshal([]byte(addition), &added.Object); err != nil {
			t.Fatal(err)
		}
		if missing := lacks(added.Object, added.Object, live.Object, ""); missing != "" {
			t.Errorf("%s has lost %s, which another client added", s.ObjectReference, missing)
		}
	}
	if len(live.GetFinalizers()) > 0 { // A finalizer would block the deletion of the namespace.
		const none = `{"metadata": {"finalizers": null}}`
		if _, err := s.client.Patch(t.Context(), s.Name, types.MergePatchType, []byte(none), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
