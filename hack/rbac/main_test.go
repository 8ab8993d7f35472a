// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func read(t *testing.T) sources {
	t.Helper()
	s, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// objects returns the RBAC objects of a generated file.
func objects(t *testing.T, content string) []rbacv1.ClusterRole {
	t.Helper()
	var found []rbacv1.ClusterRole // A Role has the same fields.
	for document := range strings.SplitSeq(content, "\n---\n") {
		var object rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		found = append(found, object)
	}
	return found
}

// granted returns the permissions of rules, as group/resource/verb.
func granted(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					all = append(all, fmt.Sprintf("%s/%s/%s", group, resource, verb))
				}
			}
		}
	}
	return all
}

func policyRules(rules []rule) []rbacv1.PolicyRule {
	var plain []rbacv1.PolicyRule
	for _, r := range rules {
		plain = append(plain, r.PolicyRule)
	}
	return plain
}

// clusterScoped are all cluster-scoped resources that the operator uses.
var clusterScoped = []string{
	"nodes", "namespaces", "ingressclasses", "customresourcedefinitions", "apiservices", "tokenreviews", "subjectaccessreviews",
}

// TestNamespacedVariantHasRolesOnly: no ClusterRole, and no rule for a cluster-scoped resource,
// which a Role cannot grant.
func TestNamespacedVariantHasRolesOnly(t *testing.T) {
	for name, content := range generate(read(t)) {
		if !strings.HasPrefix(name, namespacedDir) {
			continue
		}
		for _, object := range objects(t, content) {
			if strings.HasPrefix(object.Kind, "ClusterRole") {
				t.Errorf("%s has the %s %s", name, object.Kind, object.Name)
			}
			for _, permission := range granted(object.Rules) {
				if slices.Contains(clusterScoped, strings.Split(permission, "/")[1]) {
					t.Errorf("%s grants %s", name, permission)
				}
			}
		}
	}
}

// TestVariantsGrantNothingNew: a variant grants nothing that the cluster-wide rules do not grant,
// except permissions for impersonation.
func TestVariantsGrantNothingNew(t *testing.T) {
	s := read(t)
	all := append(granted(policyRules(s.operator.rules)), granted(policyRules(s.lease.rules))...)
	for _, k := range s.kinds {
		all = append(all, granted(policyRules(k.roles[0].rules))...)
	}
	forImpersonation := granted(policyRules(impersonation()))
	for name, content := range generate(s) {
		if !strings.HasPrefix(name, namespacedDir) && !strings.HasPrefix(name, impersonatingDir) {
			continue
		}
		for _, object := range objects(t, content) {
			for _, permission := range granted(object.Rules) {
				isNew := !slices.Contains(all, permission)
				if isNew && (strings.HasPrefix(name, namespacedDir) || !slices.Contains(forImpersonation, permission)) {
					t.Errorf("%s grants %s", name, permission)
				}
			}
		}
	}
}

// TestImpersonatingOperatorWritesNoReleases: the operator only watches the objects of releases, and
// impersonates named ServiceAccounts only.
func TestImpersonatingOperatorWritesNoReleases(t *testing.T) {
	s := read(t)
	var releases []string
	for _, k := range s.kinds {
		if k.hasReleases {
			releases = append(releases, granted(policyRules(filtered(k.roles[0].rules, func(r rule) bool { return r.has(markObjects) })))...)
		}
	}
	if len(releases) == 0 {
		t.Fatal("no rule is marked as one for objects of releases")
	}
	for name, content := range generate(s) {
		if !strings.HasPrefix(name, impersonatingDir) || strings.HasSuffix(name, "-deployer.yaml") {
			continue
		}
		for _, object := range objects(t, content) {
			for _, r := range object.Rules {
				if slices.Contains(r.Verbs, "impersonate") && len(r.ResourceNames) == 0 {
					t.Errorf("%s allows to impersonate any account", name)
				}
			}
			for _, permission := range granted(object.Rules) {
				verb := permission[strings.LastIndex(permission, "/")+1:]
				isRecord := strings.HasPrefix(permission, "/secrets/")
				if (isRecord || slices.Contains(releases, permission)) && !slices.Contains(watchOnly, verb) {
					t.Errorf("%s grants %s", name, permission)
				}
			}
		}
	}
}

// TestUserRolesWriteNoStatus: no role of users may write a status or finalizers, or anything else
// than the kinds.
func TestUserRolesWriteNoStatus(t *testing.T) {
	s := read(t)
	files := generate(s)
	roles := map[string]string{userSource: s.users}
	for _, k := range s.kinds {
		name := fmt.Sprintf("%s/%s/user-roles.yaml", kindsDir, k.name)
		roles[name] = files[name]
	}
	for name, content := range roles {
		for _, role := range objects(t, content) {
			aggregatesToView := role.Labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
			for _, permission := range granted(role.Rules) {
				resource, verb := permission[:strings.LastIndex(permission, "/")], permission[strings.LastIndex(permission, "/")+1:]
				reads := slices.Contains(readVerbs, verb)
				if strings.HasSuffix(resource, "/finalizers") || strings.HasSuffix(resource, "/status") && !reads || aggregatesToView && !reads {
					t.Errorf("%s, %s grants %s", name, role.Name, permission)
				}
			}
		}
	}
}

// TestEditorsThatReachMore: the editor role of a kind is part of edit and admin, unless its authors
// reach more.
func TestEditorsThatReachMore(t *testing.T) {
	for _, k := range read(t).kinds {
		names := k.crd.Spec.Names
		_, special := boundByName[names.Kind]
		for _, role := range objects(t, k.userRoles()) {
			if role.Name != names.Singular+"-editor" {
				continue
			}
			if aggregated := role.Labels["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"; aggregated == special {
				t.Errorf("%s is part of edit: %t", role.Name, aggregated)
			}
		}
	}
}

func TestParseRules(t *testing.T) {
	const document = `kind: ClusterRole
rules:
  # First.
  # +rbac:cluster,objects
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get]
  # +rbac:audit
  - apiGroups: [a]
    resources: [b]
    verbs: [c]
`
	rules, err := parseRules(document)
	if err != nil {
		t.Fatal(err)
	}

	if len(rules) != 2 || !rules[0].has(markCluster) || !rules[0].has(markObjects) || rules[0].has(markAudit) || !rules[1].has(markAudit) {
		t.Errorf("rules are %+v", rules)
	}
	if !slices.Equal(headOf(rules, 1), []string{"First."}) {
		t.Errorf("the second rule has the comment %q", headOf(rules, 1))
	}
	if _, err := parseRules(strings.Replace(document, "+rbac:audit", "+rbac:typo", 1)); err == nil {
		t.Error("an unknown mark is accepted")
	}
}

// TestFilteredRulesKeepTheirComment: if the rule with the comment is left out, the comment moves to
// the next rule.
func TestFilteredRulesKeepTheirComment(t *testing.T) {
	rules := []rule{{comment: []string{"All."}, marks: []mark{markCluster}}, {}}

	if kept := namespaced(rules); len(kept) != 1 || !slices.Equal(kept[0].comment, []string{"All."}) {
		t.Errorf("kept %+v", kept)
	}
}

// TestNeededRules: the operator asks for the rules of each kind, except for those that it can do
// without.
func TestNeededRules(t *testing.T) {
	s := read(t)
	needed := s.neededBy()
	optional := 0
	for _, r := range s.operator.rules {
		if r.has(markOptional) {
			optional++
		}
	}
	if n := len(needed[""]) + len(needed[demoApp]) + len(needed[demoAppCluster]); n != len(s.operator.rules)-optional || len(needed[""]) != 1 {
		t.Errorf("%d rules of %d are needed, %d of them by every kind; %d are optional", n, len(s.operator.rules), len(needed[""]), optional)
	}
	for _, k := range s.kinds {
		if k.hasReleases == (len(needed[k.name]) > 0) {
			t.Errorf("%s needs %d rules", k.name, len(needed[k.name]))
		}
	}
}
