// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrInvalidChart is wrapped by every error about files that are not a chart.
var ErrInvalidChart = errors.New("not a valid chart")

// ErrNotSynced means that a cache which the answer depends on is not filled
// yet. Trying again helps.
var ErrNotSynced = errors.New("cache is not synced")

// maxErrorText is how many bytes of an error's text an operation returns at most. Helm,
// a template and the API server can repeat the values, megabytes of them. Callers that
// redact secrets should cut earlier: a secret at the end may be there in part.
const maxErrorText = 16 << 10

// shortError is an error whose text was too long. It matches what it wraps.
type shortError struct {
	text string
	err  error
}

// Error implements error.
func (e *shortError) Error() string { return e.text }

// Unwrap returns the error as it was, for matching, not for printing.
func (e *shortError) Unwrap() error { return e.err }

// shortened returns the error with the beginning of its text.
func shortened(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= maxErrorText {
		return err
	}
	end := maxErrorText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return &shortError{text: strings.Clone(text[:end]) + fmt.Sprintf("... (%d bytes left out)", len(text)-end), err: err}
}

// RenderError means that the chart and the values do not give manifests: a
// template failed, the values do not match the chart's schema, or what came out
// is not YAML. Nothing but CRDs under crds/ was sent to the API server.
type RenderError struct {
	Chart string
	Err   error
}

// Error implements error.
func (e *RenderError) Error() string { return fmt.Sprintf("render chart %s: %v", e.Chart, e.Err) }

// Unwrap returns the cause.
func (e *RenderError) Unwrap() error { return e.Err }

// RefusedError means that the API server refused an object as it is. The same
// object will be refused again.
type RefusedError struct {
	Object ObjectReference
	Err    error
}

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s was refused: %v", e.Object, e.Err) }

// Unwrap returns the API server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// OwnershipConflictError means that an object of the release exists and belongs
// to somebody else. It was not touched.
type OwnershipConflictError struct {
	Object ObjectReference
	// Holder says whose it is, as far as the object tells; empty for an object outside
	// the release's namespace.
	Holder string
	// Seen stands for the object as it was seen, see [Engine.InTheWay]; empty when it
	// was not.
	Seen string
}

// Error implements error.
func (e *OwnershipConflictError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("%s exists already", e.Object)
	}
	return fmt.Sprintf("%s exists and belongs to %s", e.Object, e.Holder)
}

// OfRelease reports whether the conflict is about the release itself.
func (e *OwnershipConflictError) OfRelease() bool { return e.Object.Kind == releaseKind }

// releaseKind is the kind that an OwnershipConflictError names for a release.
const releaseKind = "Release"

// OutOfScopeError means that a release has an object where it may have none, see
// [Scope]. Nothing was sent to the API server.
type OutOfScopeError struct {
	Object ObjectReference
	// Namespaces are those that the release may have objects in.
	Namespaces []string
}

// Error implements error.
func (e *OutOfScopeError) Error() string {
	return fmt.Sprintf("%s is out of scope: the release may have objects in namespace %s only", e.Object, strings.Join(e.Namespaces, ", "))
}

// ReleaseTooLargeError means that the release record (chart, values and
// manifest, compressed) does not fit into a Secret, which holds 1 MiB.
type ReleaseTooLargeError struct {
	Release string
	Err     error
}

// Error implements error.
func (e *ReleaseTooLargeError) Error() string {
	return fmt.Sprintf("the record of release %s does not fit into a Secret: %v", e.Release, e.Err)
}

// Unwrap returns the API server's answer.
func (e *ReleaseTooLargeError) Unwrap() error { return e.Err }

// BusyError means that somebody else, most likely the helm CLI, is in the
// middle of an operation on the release.
type BusyError struct {
	Release string
	Status  string
	// RetryAfter is how long the operation may still take.
	RetryAfter time.Duration
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("release %s is %s by somebody else", e.Release, e.Status)
}

// NoSuchRevisionError means that a release cannot be rolled back to a revision:
// it is not in the history before the newest one, or it failed itself.
type NoSuchRevisionError struct {
	Release  string
	Revision int
}

// Error implements error.
func (e *NoSuchRevisionError) Error() string {
	return fmt.Sprintf("release %s has no good revision %d to roll back to", e.Release, e.Revision)
}

// IsTerminal reports whether the operation fails again until its inputs, or the
// objects in its way, change.
func IsTerminal(err error) bool {
	var (
		render   *RenderError
		refused  *RefusedError
		conflict *OwnershipConflictError
		tooLarge *ReleaseTooLargeError
		missing  *NoSuchRevisionError
		outside  *OutOfScopeError
	)
	return errors.As(err, &render) || errors.As(err, &refused) || errors.As(err, &conflict) ||
		errors.As(err, &tooLarge) || errors.As(err, &missing) || errors.As(err, &outside) || errors.Is(err, ErrInvalidChart)
}

// mayHaveTakenEffect reports whether a request that failed may have changed something:
// its answer did not arrive, or says only that something went wrong on the way.
func mayHaveTakenEffect(err error) bool {
	var answer apierrors.APIStatus
	return err != nil && (!errors.As(err, &answer) || answer.Status().Code >= http.StatusInternalServerError)
}

// refused wraps an API server's answer that will not change by asking again.
// Forbidden is not among them: quotas, policies and permissions change without
// the object.
func refused(object ObjectReference, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsRequestEntityTooLargeError(err) {
		return &RefusedError{Object: object, Err: err}
	}
	return fmt.Errorf("%s: %w", object, err)
}
