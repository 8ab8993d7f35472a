// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
)

// TestScope: a release has objects only in its own namespace, unless its scope allows more.
func TestScope(t *testing.T) {
	const there = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other}\n"
	tests := map[string]map[string]string{
		"object in another namespace": {"templates/b.yaml": there},
		"object in no namespace":      {"templates/b.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: b}\n"},
		"object in a List":            {"templates/b.yaml": "apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: other}}\n"},
		"hook": {
			"templates/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: other, annotations: {helm.sh/hook: pre-delete}}\n",
		},
		"file under crds/": {"crds/b.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: b}\n"},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fixture) {
				files["templates/a.yaml"] = configMap("a", "1")
				desired := made(t, files)
				desired.Scope = ScopeNamespace

				_, err := f.reconcile(desired)

				_ = wantError[*OutOfScopeError](t, err)
				if !IsTerminal(err) {
					t.Error("the error is not terminal")
				}
				wantRequests(t, f)
				wantRecords(t, f)
			})
		})
	}
}
