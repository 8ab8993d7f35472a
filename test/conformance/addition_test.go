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

// additions are fields that others add, by kind; those under the empty kind are for all.
var additions = map[string]string{
	"":           `{"metadata": {"labels": {"example.com/added": "label"}, "annotations": {"example.com/added": "annotation"}}}`,
	"ConfigMap":  `{"data": {"added": "by somebody else"}}`,
	"Secret":     `{"data": {"added": "YWRkZWQ="}}`,
	"Deployment": `{"spec": {"minReadySeconds": 7, "template": {"metadata": {"annotations": {"example.com/added": "deeply"}}}}}`,
	"Service":    `{"spec": {"publishNotReadyAddresses": true}}`,
	"Role":       `{"metadata": {"finalizers": ["example.com/added"]}}`,
}

// TestForeignFieldsAreKept adds fields to each object of the charts as somebody else. They are no drift, bring about no
// request, and stay when the object is mended.
func TestForeignFieldsAreKept(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"plain", "umbrella", "forms", "keep", "places", "dynamic", "changing", "many"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			makeNamespace(t, namespace+otherNamespace)
			e := newEngine(t, namespace, everywhere)
			wanted := e.wanted(readChart(t, chart), nil)
			if err := e.converge(t.Context(), wanted); err != nil {
				t.Fatal(err)
			}
			subjects := subjectsOf(t, e)
			// Another engine has written nothing, so that what it tells of is what others write.
			e.restart()
			e.assertAsWanted(wanted)
			e.journal.take()

			before := e.heard()
			patchAll(t, subjects, func(s *subject) []string { return []string{additions[""], additions[s.Kind]} })
			e.assertAsWanted(wanted)
			// The watch tells of changes in their order: when it has told of this one of an object, it has told of the
			// additions to that object before.
			const own = `{"metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}}`
			patchAll(t, subjects, func(*subject) []string { return []string{own} })
			e.await("drift of all", func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) == len(subjects) })
			if heard := e.heard() - before; heard > len(subjects) {
				t.Errorf("the engine told of %d changes, of no more than one of each of %d objects it should", heard, len(subjects))
			}
			if requests := e.journal.take(); len(requests) > 0 {
				t.Errorf("the engine wrote %v", requests)
			}

			if err := e.converge(t.Context(), wanted); err != nil {
				t.Fatal(err)
			}
			for _, s := range subjects {
				s.assertAdded(t)
			}
		})
	}
}

// patchAll patches each object as somebody else.
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

// assertAdded holds that the object is mended, and has the additions.
func (s *subject) assertAdded(t *testing.T) {
	t.Helper()
	live, err := s.client.Get(t.Context(), s.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if live.GetAnnotations()["meta.helm.sh/release-name"] != releaseName {
		t.Errorf("%s was not mended", s.ObjectReference)
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
			t.Errorf("%s has lost %s, which somebody else added", s.ObjectReference, missing)
		}
	}
	if len(live.GetFinalizers()) > 0 { // It would keep the namespace from being deleted.
		const none = `{"metadata": {"finalizers": null}}`
		if _, err := s.client.Patch(t.Context(), s.Name, types.MergePatchType, []byte(none), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
