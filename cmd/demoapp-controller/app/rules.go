// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/pkg/served"
)

// neededRule is a rule of artifacts/deploy/10-rbac.yaml or artifacts/kinds/<kind>/rbac.yaml, from
// which neededRules is generated.
type neededRule struct {
	rbacv1.PolicyRule

	// audit is true if the rule is for the audit namespace, and false if it is for the watched
	// namespaces.
	audit bool
}

// rulesOf returns the rules that a kind needs.
func rulesOf(kind string, options *Options) func(served.Snapshot) []operator.Rule {
	var rules []operator.Rule
	for _, needed := range append(neededRules[kind], neededRules[""]...) {
		rule := operator.Rule{PolicyRule: needed.PolicyRule}
		if needed.audit {
			rule.Namespaces = []string{options.AuditNamespace}
		}
		rules = append(rules, rule)
	}
	return func(served.Snapshot) []operator.Rule { return rules }
}
