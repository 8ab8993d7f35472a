// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Scope limits the namespaces of a release's objects.
type Scope string

const (
	// ScopeNamespace allows objects in the release's own namespace only. It is the default.
	ScopeNamespace Scope = "Namespace"
	// ScopeCluster allows objects in all namespaces and cluster-scoped objects. A user who can
	// choose a chart's values, or edit its release records, can then use the engine's permissions
	// in all namespaces. So the operator's administrator should choose the scope, and not the
	// authors of custom resources.
	ScopeCluster Scope = "Cluster"
)

// Bounds limit the objects of the requests of an operation, and name the account that sends them.
type Bounds struct {
	Namespace string
	Scope     Scope
	// Namespaces are those that the engine is limited to; empty means all.
	Namespaces []string
	// User is the user name of the release's service account; empty for the engine's own
	// account.
	User string
}

// Allow reports whether an object of the namespace, empty for none, may be part of
// the release.
func (b Bounds) Allow(namespace string) bool {
	if b.Scope != ScopeCluster {
		return namespace == b.Namespace
	}
	return namespace == "" || len(b.Namespaces) == 0 || slices.Contains(b.Namespaces, namespace)
}

type boundsKey struct{}

// With returns a context whose requests have to stay within the bounds.
func With(ctx context.Context, b Bounds) context.Context {
	return context.WithValue(ctx, boundsKey{}, b)
}

// Transport refuses requests out of bounds, so that no code path in Helm or the engine can bypass
// the check. A write has to be part of an operation and about an object within its bounds. With
// namespaces, objects in other namespaces are neither read nor written. The transport also sends
// each request of an operation as the release's service account, so that no code path uses the
// engine's own permissions by mistake.
type Transport struct {
	Next http.RoundTripper
	// Root is the root path of the API server, which is usually empty.
	Root string
	// Namespaces are those that the engine is limited to; empty means all.
	Namespaces []string
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.check(request); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	if within, ok := request.Context().Value(boundsKey{}).(Bounds); ok && within.User != "" {
		request = impersonating(request, within.User)
	}
	return t.Next.RoundTrip(request)
}

// impersonating returns a copy of the request that impersonates the user. It names no groups,
// because the API server knows the groups of a service account. With groups, the engine would need
// a permission for each of them.
func impersonating(request *http.Request, user string) *http.Request {
	request = request.Clone(request.Context())
	maps.DeleteFunc(request.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Impersonate-") })
	request.Header.Set(authenticationv1.ImpersonateUserHeader, user)
	return request
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (t *Transport) WrappedRoundTripper() http.RoundTripper { return t.Next }

func (t *Transport) check(request *http.Request) error {
	namespace := RequestNamespace(strings.TrimPrefix(request.URL.Path, t.Root))
	if namespace != "" && len(t.Namespaces) > 0 && !slices.Contains(t.Namespaces, namespace) {
		return fmt.Errorf("%s %s: namespace %q is not among those that the engine is limited to", request.Method, request.URL.Path, namespace)
	}
	within, ok := request.Context().Value(boundsKey{}).(Bounds)
	reads := request.Method == http.MethodGet || request.Method == http.MethodHead
	switch {
	case !ok && !reads:
		return fmt.Errorf("%s %s: not part of an operation on a release", request.Method, request.URL.Path)
	case !ok, reads && namespace == "", within.Allow(namespace):
		return nil
	case namespace == "":
		return fmt.Errorf("%s %s: release in namespace %q may have no cluster-scoped objects", request.Method, request.URL.Path, within.Namespace)
	default:
		return fmt.Errorf("%s %s: release in namespace %q may have no objects in other namespaces", request.Method, request.URL.Path, within.Namespace)
	}
}

// RequestNamespace returns the namespace in the path of a request's URL:
// /api/v1/namespaces/NAME/RESOURCE or /apis/GROUP/VERSION/namespaces/NAME/RESOURCE. It is
// empty for a request about a Namespace itself.
func RequestNamespace(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		parts = parts[min(2, len(parts)):]
	case "apis":
		parts = parts[min(3, len(parts)):]
	default:
		return ""
	}
	if len(parts) < 3 || parts[0] != "namespaces" || len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize") {
		return ""
	}
	return parts[1]
}
