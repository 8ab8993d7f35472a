// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// HookError means that a hook of a release ran, and failed or did not end in time. A further
// attempt runs the hook again.
type HookError struct{ Err error }

// Error implements error.
func (e *HookError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *HookError) Unwrap() error { return e.Err }

// ClusterReadError means that an install or upgrade failed after its templates had read the
// cluster. The same inputs may succeed when the cluster has changed.
type ClusterReadError struct {
	Err error
	// Capabilities says that a template may have read .Capabilities: the kinds and the version of
	// the API server.
	Capabilities bool
}

// Error implements error.
func (e *ClusterReadError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ClusterReadError) Unwrap() error { return e.Err }

// IsFinal reports whether an operation fails until its inputs change. Either the inputs alone decide
// that, or a hook failed, which each further attempt would run again. All other failures may end when the cluster changes, for example a policy,
// a quota, a permission, a CRD, or the object of another owner.
func IsFinal(err error) bool {
	if isError[*HookError](err) {
		return true
	}
	if isError[*ClusterReadError](err) || isError[*RefusedError](err) || isError[*OwnershipConflictError](err) || meta.IsNoMatchError(err) {
		return false
	}
	return isError[*RenderError](err) || isError[*OutOfScopeError](err) || isError[*ReleaseTooLargeError](err) ||
		errors.Is(err, chart.ErrInvalid) || errors.Is(err, chart.ErrInvalidValues) || errors.Is(err, ErrInvalidServiceAccount)
}

// DependsOnCapabilities reports whether a change of the kinds or the version of the API server may
// end a failure.
func DependsOnCapabilities(err error) bool {
	read, ok := errors.AsType[*ClusterReadError](err)
	return ok && read.Capabilities || meta.IsNoMatchError(err)
}

// isError reports whether err wraps an error of the type.
func isError[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// ofCluster marks the error of an operation whose templates have read the cluster. Lookups are
// observed. Templates read the capabilities without a call, so the text of the chart decides.
func (o *operation) ofCluster(err error, desired Release) error {
	if err == nil || !o.rendered {
		return err
	}
	capabilities := desired.Chart.NamesCapabilities(desired.Values)
	if !capabilities && !o.lookups.used.Load() {
		return err
	}
	return &ClusterReadError{Err: err, Capabilities: capabilities}
}
