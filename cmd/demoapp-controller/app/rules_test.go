// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// TestRulesAllowTheCachesOfEachKind: the rules of an opt-in kind allow the list and the watch of the resources that the kind
// watches, and of no others. The integration tests cannot tell for which kind the process, whose caches the kinds share, sent
// such a request.
func TestRulesAllowTheCachesOfEachKind(t *testing.T) {
	registered, err := kinds(t.Context(), parse(t))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, kind := range registered {
		file := filepath.Join("..", "..", "..", "artifacts", "kinds", kind.Name, "rbac.yaml")
		rules, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // It is not opted in: artifacts/deploy has its rules.
		}
		if err != nil {
			t.Fatal(err)
		}
		compared++
		watched := sets.New[schema.GroupResource]()
		for _, part := range append(kind.Optional, kind) {
			for _, resource := range append(part.Resources, part.ClusterResources...) {
				watched.Insert(resource.GroupResource())
			}
		}

		if diff := cmp.Diff(watched, watchable(t, rules)); diff != "" {
			t.Errorf("%s: resources that the kind watches (-) and may watch (+):\n%s", file, diff)
		}
	}
	if folders, err := filepath.Glob("../../../artifacts/kinds/*/rbac.yaml"); err != nil || compared != len(folders)-1 {
		t.Errorf("compared the rules of %d kinds of %d; only Memcached, which is a kind of watches.yaml, has none here (%v)", compared, len(folders), err)
	}
}

// watchable returns the resources that the first role of a file allows to list and to watch.
func watchable(t *testing.T, file []byte) sets.Set[schema.GroupResource] {
	t.Helper()
	first, _, _ := bytes.Cut(file, []byte("\n---\n"))
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(first, &role); err != nil {
		t.Fatal(err)
	}
	found := sets.New[schema.GroupResource]()
	for _, rule := range role.Rules {
		if !slices.Contains(rule.Verbs, "watch") || !slices.Contains(rule.Verbs, "list") {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				found.Insert(schema.GroupResource{Group: group, Resource: resource})
			}
		}
	}
	return found
}
