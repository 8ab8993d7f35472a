// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import "github.com/example/demoapp-controller/pkg/helm/guard"

// Scope limits the namespaces of a release's objects. See [guard.Scope].
type Scope = guard.Scope

// The values of Scope.
const (
	ScopeNamespace = guard.ScopeNamespace
	ScopeCluster   = guard.ScopeCluster
)

// boundsOf returns the bounds of the operations on a release.
func (e *Engine) boundsOf(release Release) (guard.Bounds, error) {
	user, err := release.user()
	if err != nil {
		return guard.Bounds{}, err
	}
	return guard.Bounds{Namespace: release.Namespace, Scope: release.Scope, Namespaces: e.namespaces, User: user}, nil
}
