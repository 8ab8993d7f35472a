// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/controller/kinds/demoapp"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
	"github.com/example/demoapp-controller/pkg/served"
)

// TestRulesAllowTheCachesOfEachKind: the rules of an opt-in kind allow list and watch exactly for
// the resources that the kind watches. The process shares its caches among the kinds, so the
// integration tests cannot attribute such a request to a kind.
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

// TestEachKindDeclaresItsRules: each kind needs the status of its resource, and events. The audit
// rules are for the audit namespace.
func TestEachKindDeclaresItsRules(t *testing.T) {
	options := parse(t, "--audit-namespace=records")
	registered, err := kinds(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range registered {
		needed := map[string]bool{}
		for _, rule := range kind.Rules(served.Snapshot{}) {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					needed[strings.Join(append(rule.Namespaces, verb, resource), " ")] = true
				}
			}
		}
		want := []string{"patch " + kind.Resources[0].Resource + "/status", "create events"}
		if kind.Name == demoapp.Name {
			want = append(want, "records create configmaps", "deletecollection secrets")
		}
		for _, permission := range want {
			if !needed[permission] {
				t.Errorf("%s does not ask for %s", kind.Name, permission)
			}
		}
		for _, optional := range []string{"list customresourcedefinitions", "patch ingresses"} {
			if needed[optional] && kind.Name == demoapp.Name {
				t.Errorf("%s asks for %s", kind.Name, optional)
			}
		}
	}
}

// TestRulesOfWatchedKinds: the rules that a kind of watches.yaml asks for are the rules of its files.
func TestRulesOfWatchedKinds(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, test := range []struct {
		account string
		files   []string
	}{
		{"", []string{"artifacts/deploy/10-rbac.yaml", "artifacts/kinds/memcached/rbac.yaml"}},
		{"demoapp-deployer", []string{"artifacts/rbac/impersonating/operator.yaml", "artifacts/rbac/impersonating/memcached.yaml"}},
	} {
		var granted []rbacv1.PolicyRule
		for _, file := range test.files {
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
				var role rbacv1.ClusterRole
				if err := yaml.Unmarshal(document, &role); err != nil {
					t.Fatal(err)
				}
				if role.Kind == "ClusterRole" {
					granted = append(granted, role.Rules...)
				}
			}
		}
		kind := watches.ReleaseKind{ServiceAccountName: test.account}

		inNamespace, ofResource := kind.Rules(schema.GroupResource{Group: "cache.my.domain", Resource: "memcacheds"})

		for _, rule := range append(inNamespace, ofResource...) {
			for _, verb := range rule.Verbs {
				allows := func(g rbacv1.PolicyRule) bool {
					return slices.Contains(g.Verbs, verb) && slices.Contains(g.APIGroups, rule.APIGroups[0]) &&
						slices.Contains(g.Resources, rule.Resources[0]) && slices.Equal(g.ResourceNames, rule.ResourceNames)
				}
				if !slices.ContainsFunc(granted, allows) {
					t.Errorf("%q does not grant %s %s", test.files, verb, rule.Resources[0])
				}
			}
		}
	}
}
