// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"net/http"
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

// TestGuard: requests beyond the bounds do not leave the process.
func TestGuard(t *testing.T) {
	namespaced := bounds{namespace: "a", scope: ScopeNamespace}
	clusterWide := bounds{namespace: "a", scope: ScopeCluster}
	tests := []struct {
		method, path string
		within       *bounds
		namespaces   []string
		allowed      bool
	}{
		{"PATCH", "/api/v1/namespaces/a/configmaps/x", &namespaced, nil, true},
		{"PATCH", "/api/v1/namespaces/b/configmaps/x", &namespaced, nil, false},
		{"GET", "/api/v1/namespaces/b/secrets/x", &namespaced, nil, false},
		{"DELETE", "/apis/apps/v1/namespaces/b/deployments/x", &namespaced, nil, false},
		{"PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", &namespaced, nil, false},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", &namespaced, nil, true},
		{"DELETE", "/api/v1/namespaces/a", &namespaced, nil, false},
		{"PUT", "/api/v1/namespaces/a/finalize", &namespaced, nil, false},
		{"PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", &clusterWide, nil, true},
		{"PATCH", "/api/v1/namespaces/b/configmaps/x", &clusterWide, nil, true},
		{"PATCH", "/api/v1/namespaces/b/configmaps/x", &clusterWide, []string{"a"}, false},
		{"GET", "/api/v1/namespaces/b/configmaps/x", nil, []string{"a"}, false},
		{"GET", "/api/v1/namespaces/b/configmaps", nil, nil, true},
		{"PATCH", "/api/v1/namespaces/a/configmaps/x", nil, nil, false},
		{"GET", "/version", nil, []string{"a"}, true},
		{"POST", "/proxy/api/v1/namespaces/a/secrets", &namespaced, nil, true},
		{"POST", "/proxy/api/v1/namespaces/b/secrets", &namespaced, nil, false},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			sent := false
			g := &guard{root: "/proxy", namespaces: test.namespaces, next: roundTripper(func(*http.Request) (*http.Response, error) {
				sent = true
				return &http.Response{Body: http.NoBody}, nil
			})}
			ctx := t.Context()
			if test.within != nil {
				within := *test.within
				within.namespaces = test.namespaces
				ctx = withBounds(ctx, within)
			}
			request, err := http.NewRequestWithContext(ctx, test.method, "http://server"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}

			response, err := g.RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}

			if (err == nil) != test.allowed || sent != test.allowed {
				t.Errorf("error %v, sent %t, want allowed: %t", err, sent, test.allowed)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
