// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/example/demoapp-controller/pkg/expiring"
)

// terminatingRetry is the time for which a terminating namespace ends all work in it except
// deletions. By then, its objects should be deleted.
const terminatingRetry = 30 * time.Second

// terminatingNamespaces has the namespaces in which the API server refused a new object, because
// the namespace is being deleted. The zero value is ready to use.
type terminatingNamespaces struct {
	refused expiring.Map[string, struct{}]
}

// has reports whether the API server refused an object in the namespace lately.
func (t *terminatingNamespaces) has(namespace string, now time.Time) bool {
	_, ok := t.refused.Get(namespace, now)
	return ok
}

// observe reports whether the error says that the namespace is being deleted.
func (t *terminatingNamespaces) observe(namespace string, err error, now time.Time) bool {
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	t.refused.Set(namespace, struct{}{}, terminatingRetry, now)
	return true
}
