// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/cluster"
)

// boundByName are the kinds whose editor role is part of no other, because their authors reach more
// than edit allows.
var boundByName = []string{"demoappclusters", "ecommerceplatforms"}

// definedKind is a kind as its CRD names it.
type definedKind struct {
	group, plural, singular string
	scalable                bool
}

// definedKinds returns the kinds of all CRDs.
func definedKinds(t *testing.T) []definedKind {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(shared.Root(), "artifacts", "kinds", "*", "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crds, err := shared.Objects(append(files, "artifacts/crds")...)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []definedKind
	for _, crd := range crds {
		text := func(path ...string) string {
			value, found, err := unstructured.NestedString(crd.Object, path...)
			if !found || err != nil {
				t.Fatalf("%s lacks %v: %v", crd.GetName(), path, err)
			}
			return value
		}
		kind := definedKind{group: text("spec", "group"), plural: text("spec", "names", "plural"), singular: text("spec", "names", "singular")}
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range versions {
			_, scalable, err := unstructured.NestedMap(version.(map[string]any), "subresources", "scale")
			if err != nil {
				t.Fatal(err)
			}
			kind.scalable = kind.scalable || scalable
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// TestUserRolesOfAllKinds asks the API server for the permissions of a ServiceAccount with each
// role for each kind. Viewers write nothing. Nobody writes a status or finalizers.
func TestUserRolesOfAllKinds(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(shared.Root(), "artifacts", "kinds", "*", "user-roles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyFiles(t.Context(), "", files...); err != nil {
		t.Fatal(err)
	}
	kinds := definedKinds(t)
	if len(files) != len(kinds)-2 {
		t.Errorf("%d files of roles for %d kinds, want one for each kind but DemoApp and DemoAppCluster", len(files), len(kinds))
	}
	namespaces := map[string]string{}
	for _, role := range []string{"view", "edit", "admin"} {
		namespaces[role] = shared.Namespace(t)
		bind(t, namespaces[role], role)
	}
	for _, kind := range kinds {
		t.Run(kind.plural, func(t *testing.T) {
			t.Parallel()
			viewer, editor := kind.singular+"-viewer", kind.singular+"-editor"
			if kind.plural == "demoappclusters" {
				viewer = "demoapp-viewer"
			}
			byName := slices.Contains(boundByName, kind.plural)
			for _, role := range []struct {
				name  string
				edits bool
			}{{viewer, false}, {editor, true}, {"view", false}, {"edit", !byName}, {"admin", !byName}} {
				namespace, ok := namespaces[role.name]
				if !ok {
					namespace = shared.Namespace(t)
					bind(t, namespace, role.name)
				}
				assertRole(t, kind, role.name, namespace, role.edits)
			}
		})
	}
}

// assertRole asserts the permissions of the ServiceAccount with a role in its namespace.
func assertRole(t *testing.T, kind definedKind, role, namespace string, edits bool) {
	t.Helper()
	may := func(ctx context.Context, verb, subresource string) (bool, error) {
		review, err := shared.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   fmt.Sprintf("system:serviceaccount:%s:person", namespace),
				Groups: []string{"system:authenticated", "system:serviceaccounts"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: kind.group, Resource: kind.plural, Subresource: subresource, Namespace: namespace,
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	}
	// The aggregation of roles takes a moment.
	cluster.Eventually(t.Context(), t, role+" may list "+kind.plural, func(ctx context.Context) (bool, error) {
		return may(ctx, "list", "")
	})
	tests := []struct {
		subresource string
		verbs       []string
		allowed     bool
	}{
		{"", []string{"get", "list", "watch"}, true},
		{"", []string{"create", "update", "patch", "delete", "deletecollection"}, edits},
		{"status", []string{"get"}, true},
		{"status", []string{"create", "update", "patch", "delete"}, false},
		{"finalizers", []string{"get", "update", "patch"}, false},
		{"scale", []string{"update", "patch"}, edits && kind.scalable},
	}
	for _, test := range tests {
		for _, verb := range test.verbs {
			if allowed, err := may(t.Context(), verb, test.subresource); err != nil || allowed != test.allowed {
				t.Errorf("%s may %s %s/%s: %t (%v), want %t", role, verb, kind.plural, test.subresource, allowed, err, test.allowed)
			}
		}
	}
}
