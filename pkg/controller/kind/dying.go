// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// terminatingRetry is the time for which a terminating namespace ends all work in it except
// deletions. By then, its objects should be deleted.
const terminatingRetry = 30 * time.Second

// dying has the namespaces in which the API server refused a new object, because the namespace
// is being deleted. The zero value is ready to use.
type dying struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// has reports whether the API server refused an object in the namespace lately.
func (d *dying) has(namespace string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return now.Before(d.until[namespace])
}

// note reports whether the error says that the namespace is being deleted.
func (d *dying) note(namespace string, err error, now time.Time) bool {
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		d.until = map[string]time.Time{}
	}
	maps.DeleteFunc(d.until, func(_ string, until time.Time) bool { return !now.Before(until) })
	d.until[namespace] = now.Add(terminatingRetry)
	return true
}
