// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTransport: requests beyond the bounds do not leave the process.
func TestTransport(t *testing.T) {
	namespaced := Bounds{Namespace: "a", Scope: ScopeNamespace}
	clusterWide := Bounds{Namespace: "a", Scope: ScopeCluster}
	tests := []struct {
		method, path string
		within       *Bounds
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
			g := &Transport{Root: "/proxy", Namespaces: test.namespaces, Next: roundTripper(func(*http.Request) (*http.Response, error) {
				sent = true
				return &http.Response{Body: http.NoBody}, nil
			})}
			ctx := t.Context()
			if test.within != nil {
				within := *test.within
				within.Namespaces = test.namespaces
				ctx = With(ctx, within)
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

// TestTransportImpersonates: the account of the release replaces every identity that a client set.
func TestTransportImpersonates(t *testing.T) {
	var sent http.Header
	g := &Transport{Next: roundTripper(func(request *http.Request) (*http.Response, error) {
		sent = request.Header
		return &http.Response{Body: http.NoBody}, nil
	})}
	ctx := With(t.Context(), Bounds{Namespace: "a", User: "system:serviceaccount:a:b"})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/api/v1/namespaces/a/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	before := http.Header{
		"Accept": {"x"}, "Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"}, "Impersonate-Uid": {"1"}, "Impersonate-Extra-Scopes": {"all"},
	}
	request.Header = before.Clone()

	response, err := g.RoundTrip(request)
	if err == nil {
		err = response.Body.Close()
	}

	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"Accept": {"x"}, "Impersonate-User": {"system:serviceaccount:a:b"}}, sent); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, request.Header); diff != "" {
		t.Errorf("the caller's request has changed (-want +got):\n%s", diff)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
