// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The files that are written by hand.
const (
	operatorSource = "artifacts/deploy/10-rbac.yaml"
	userSource     = "artifacts/deploy/11-user-roles.yaml"
	metricsSource  = "artifacts/rbac/metrics-auth.yaml"
	kindsDir       = "artifacts/kinds"
	kindSource     = "rbac.yaml"
	docsPage       = "docs/security.md"
)

// markPrefix begins a comment line with the marks of a rule. The comments of operatorSource explain
// the marks.
const markPrefix = "+rbac:"

// mark says where the variants of a rule differ.
type mark string

const (
	markCluster       mark = "cluster"
	markAudit         mark = "audit"
	markRecords       mark = "records"
	markObjects       mark = "objects"
	markImpersonating mark = "impersonating"
	// markOptional and markDemoAppCluster do not distinguish variants. They mark the needs of a
	// kind; see code.go.
	markOptional       mark = "optional"
	markDemoAppCluster mark = "demoappcluster"
)

var knownMarks = []mark{markCluster, markAudit, markRecords, markObjects, markImpersonating, markOptional, markDemoAppCluster}

// rule is a rule with its comment, without marks. A rule without a comment belongs to the comment
// above it.
type rule struct {
	rbacv1.PolicyRule

	comment []string
	marks   []mark
}

func (r rule) has(m mark) bool { return slices.Contains(r.marks, m) }

// role is a Role or ClusterRole of a source.
type role struct {
	kind, name string
	rules      []rule
}

// kind is an opt-in kind.
type kind struct {
	// name is the name of its folder.
	name  string
	roles []role
	// admission are the roles for the webhook of the kind, if it has one.
	admission []role
	// crd has the names of the kind.
	crd apiextensionsv1.CustomResourceDefinition
	// hasReleases says that the kind has a watches file.
	hasReleases bool
}

// sources is everything that is written by hand.
type sources struct {
	// operator has the rules of the operator and of its lease.
	operator, lease, metricsAuth, metricsReader role
	// account is the operator's ServiceAccount, as YAML.
	account string
	kinds   []kind
	// users is the content of userSource.
	users string
}

func readSources(root string) (sources, error) {
	var s sources
	roles, err := readRoles(filepath.Join(root, operatorSource))
	if err != nil {
		return s, err
	}
	if len(roles) != 2 || roles[0].kind != "ClusterRole" || roles[1].kind != "Role" {
		return s, fmt.Errorf("%s: must have the ClusterRole of the operator and the Role of its lease", operatorSource)
	}
	s.operator, s.lease = roles[0], roles[1]
	if s.account, err = readAccount(filepath.Join(root, operatorSource)); err != nil {
		return s, err
	}
	if roles, err = readRoles(filepath.Join(root, metricsSource)); err != nil {
		return s, err
	}
	if len(roles) != 2 {
		return s, fmt.Errorf("%s: must have the ClusterRoles of the operator and of readers", metricsSource)
	}
	s.metricsAuth, s.metricsReader = roles[0], roles[1]
	users, err := os.ReadFile(filepath.Join(root, userSource))
	if err != nil {
		return s, err
	}
	s.users = string(users)
	s.kinds, err = readKinds(root)
	return s, err
}

// readAccount returns the ServiceAccount that a file begins with, without the comment of the file.
func readAccount(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	document, _, _ := strings.Cut(string(text), "---\n")
	_, object, found := strings.Cut("\n"+document, "\napiVersion: v1\nkind: ServiceAccount\n")
	if !found {
		return "", fmt.Errorf("%s: must begin with the ServiceAccount of the operator", path)
	}
	return "apiVersion: v1\nkind: ServiceAccount\n" + object, nil
}

func readKinds(root string) ([]kind, error) {
	files, err := filepath.Glob(filepath.Join(root, kindsDir, "*", kindSource))
	if err != nil {
		return nil, err
	}
	var kinds []kind
	for _, file := range files {
		dir := filepath.Dir(file)
		k := kind{name: filepath.Base(dir)}
		if k.roles, err = readRoles(file); err != nil {
			return nil, err
		}
		if len(k.roles) != 1 || k.roles[0].kind != "ClusterRole" {
			return nil, fmt.Errorf("%s: must have one ClusterRole", file)
		}
		crd, err := os.ReadFile(filepath.Join(dir, "crd.yaml"))
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(crd, &k.crd); err != nil {
			return nil, fmt.Errorf("%s/crd.yaml: %w", dir, err)
		}
		if k.crd.Spec.Names.Plural == "" || len(k.crd.Spec.Versions) == 0 {
			return nil, fmt.Errorf("%s/crd.yaml: is no CustomResourceDefinition", dir)
		}
		if k.admission, err = readRoles(filepath.Join(root, k.admissionFile())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		_, err = os.Stat(filepath.Join(dir, "watches.yaml"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		k.hasReleases = err == nil
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// readRoles returns the Roles and ClusterRoles of a file.
func readRoles(path string) ([]role, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var roles []role
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var parsed rbacv1.ClusterRole // A Role has rules of the same form.
		if err := yaml.Unmarshal([]byte(document), &parsed); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if parsed.Kind != "ClusterRole" && parsed.Kind != "Role" {
			continue
		}
		rules, err := parseRules(document)
		if err != nil {
			return nil, fmt.Errorf("%s, %s %s: %w", path, parsed.Kind, parsed.Name, err)
		}
		if len(rules) != len(parsed.Rules) {
			return nil, fmt.Errorf("%s, %s %s: each rule must begin with a line like \"  - apiGroups: [apps]\"", path, parsed.Kind, parsed.Name)
		}
		roles = append(roles, role{kind: parsed.Kind, name: parsed.Name, rules: rules})
	}
	return roles, nil
}

// parseRules returns the rules of a Role or ClusterRole with their comments.
func parseRules(document string) ([]rule, error) {
	_, text, _ := strings.Cut(document, "\nrules:\n")
	var rules []rule
	var comment []string
	var body strings.Builder
	end := func() error {
		if body.Len() == 0 {
			return nil
		}
		var parsed []rbacv1.PolicyRule
		if err := yaml.UnmarshalStrict([]byte(body.String()), &parsed); err != nil {
			return err
		}
		next, err := newRule(parsed[0], comment)
		rules, comment = append(rules, next), nil
		body.Reset()
		return err
	}
	for line := range strings.Lines(text) {
		note, isComment := strings.CutPrefix(strings.TrimSpace(line), "#")
		if isComment || strings.HasPrefix(line, "  - ") {
			if err := end(); err != nil {
				return nil, err
			}
		}
		if isComment {
			comment = append(comment, strings.TrimSpace(note))
			continue
		}
		body.WriteString(line)
	}
	return rules, end()
}

func newRule(parsed rbacv1.PolicyRule, comment []string) (rule, error) {
	r := rule{PolicyRule: parsed}
	for _, line := range comment {
		marks, isMark := strings.CutPrefix(line, markPrefix)
		if !isMark {
			r.comment = append(r.comment, line)
			continue
		}
		for m := range strings.SplitSeq(marks, ",") {
			if !slices.Contains(knownMarks, mark(m)) {
				return r, fmt.Errorf("unknown mark %q, use one of %q", m, knownMarks)
			}
			r.marks = append(r.marks, mark(m))
		}
	}
	return r, nil
}
