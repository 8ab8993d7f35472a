// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/functions"
	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// ErrInvalidServiceAccount means that [Release.ServiceAccount] is not a valid name. Nothing
// was sent to the API server.
var ErrInvalidServiceAccount = errors.New("invalid name of a service account")

// ErrNotSynced means that a cache is not filled yet, or that the release has changed since
// it was observed. A retry helps.
var ErrNotSynced = live.ErrNotSynced

// ErrStopped means that an operation ended before it changed the release, because the process
// stops. See [WithStop].
var ErrStopped = functions.ErrStopped

// maxErrorText is the largest text in bytes of an error that an operation returns. Helm, a
// template and the API server can repeat megabytes of values. Callers that redact secrets
// should cut earlier, because the text may end inside a secret.
const maxErrorText = 16 << 10

// shortError is an error with a shortened text. It matches the error that it wraps.
type shortError struct {
	text string
	err  error
}

// Error implements error.
func (e *shortError) Error() string { return e.text }

// Unwrap returns the original error, for matching and not for printing.
func (e *shortError) Unwrap() error { return e.err }

// shortened returns the error with at most the first maxErrorText bytes of its text.
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

// withAccount adds a hint to the API server's refusal of a request that was sent as the
// service account of a release. The refusal is the same for an account that does not exist.
func withAccount(err error, release Release) error {
	if release.ServiceAccount == "" || !apierrors.IsForbidden(err) || ssa.IsImpersonationRefused(err, release.ServiceAccount) {
		return err
	}
	return fmt.Errorf("%w: check that ServiceAccount %s/%s exists and has this permission", err, release.Namespace, release.ServiceAccount)
}

// RenderError means that the chart cannot be rendered with the values: a template failed, the
// values do not match the chart's schema, or the result is not a valid manifest. Only CRDs under
// crds/ were sent to the API server.
type RenderError struct {
	Chart string
	Err   error
}

// Error implements error.
func (e *RenderError) Error() string {
	text := fmt.Sprintf("render chart %s: %v", e.Chart, e.Err)
	if mixesNumbers(text) {
		text += ". Integers of a custom resource are int64, and all numbers of values.yaml are float64: convert both with int or float64 in the template"
	}
	return text
}

// mixesNumbers reports whether the text of a template's error is about types of numbers. Helm gives
// a chart only floats. A large integer of a custom resource stays an integer, because templates
// print large floats with an exponent.
func mixesNumbers(text string) bool {
	return strings.Contains(text, "incompatible types for comparison") ||
		strings.Contains(text, "wrong type for value; expected int; got float64") ||
		strings.Contains(text, "wrong type for value; expected float64; got int64")
}

// Unwrap returns the cause.
func (e *RenderError) Unwrap() error { return e.Err }

// RenderTimeoutError means that a rendering took too long, see [functions.MaxTime]. Nothing was sent
// to the API server, except for CRDs under crds/. A retry may succeed when the process has less to do.
type RenderTimeoutError struct {
	Chart string
	Err   error
}

// Error implements error.
func (e *RenderTimeoutError) Error() string {
	return fmt.Sprintf("render chart %s: %v", e.Chart, e.Err)
}

// Unwrap returns the cause.
func (e *RenderTimeoutError) Unwrap() error { return e.Err }

// RefusedError means that the API server refused an object. It will refuse the same object
// again.
type RefusedError = ssa.RefusedError

// OwnershipConflictError means that an object of the release exists and belongs to another owner.
// The object was not changed. Its Holder is empty for an object outside the release's namespace.
// [Engine.InTheWay] returns Seen; it is empty when the engine has not read the object.
type OwnershipConflictError = ssa.OwnershipConflictError

func isRefused(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused)
}

// OutOfScopeError means that a manifest has an object outside the release's [Scope].
// Nothing was sent to the API server.
type OutOfScopeError struct {
	Object ObjectReference
	// Namespaces are the namespaces that the release may have objects in.
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

// BusyError means that another client, most likely the helm CLI, is changing the release.
type BusyError struct {
	Release string
	Status  string
	// RetryAfter is the time that the operation may still take.
	RetryAfter time.Duration
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("release %s is %s by another client: wait until its operation ends", e.Release, e.Status)
}

// NoSuchRevisionError means that a release cannot be rolled back to a revision, because the
// revision is not in the history before the newest one, failed, or is not verified.
type NoSuchRevisionError struct {
	Release  string
	Revision int
}

// Error implements error.
func (e *NoSuchRevisionError) Error() string {
	return fmt.Sprintf("release %s has no good revision %d to roll back to", e.Release, e.Revision)
}

// UnavailableError means that an operation failed because a server was unavailable, see
// [ssa.IsServerFault]. The error says nothing about the release. A retry with the same inputs may
// succeed.
type UnavailableError struct{ Err error }

// Error implements error.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// unavailable wraps an error in an UnavailableError if it is one. ended says that the time of
// the operation is up. A request that ends for this reason does not count, because a hook may
// have taken the time.
func unavailable(err error, ended bool) error {
	if err == nil || IsTerminal(err) {
		return err
	}
	var answer apierrors.APIStatus
	if !ssa.IsServerFault(err) || ended && !errors.As(err, &answer) {
		return err
	}
	return &UnavailableError{Err: err}
}

// IsTerminal reports whether the operation will fail again until its inputs, or conflicting
// objects, change.
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
		errors.As(err, &tooLarge) || errors.As(err, &missing) || errors.As(err, &outside) || errors.Is(err, chart.ErrInvalid) ||
		errors.Is(err, ErrInvalidServiceAccount)
}

// mayHaveTakenEffect reports whether a failed request may have changed an object, because its
// answer did not arrive or is a server error.
func mayHaveTakenEffect(err error) bool {
	var answer apierrors.APIStatus
	return err != nil && (!errors.As(err, &answer) || answer.Status().Code >= http.StatusInternalServerError)
}

// refused wraps an error of the API server. It is a RefusedError if the same request will
// fail again.
func refused(object ObjectReference, err error) error {
	if ssa.WillRefuseAgain(err) {
		return &RefusedError{Object: object, Err: err}
	}
	return fmt.Errorf("%s: %w", object, err)
}

// nestedCall separates the calls in the error of a template. The last call has the cause.
// maxNestedCalls is the number of calls that such an error keeps.
const (
	nestedCall     = ": error calling include: "
	maxNestedCalls = 10
)

// withoutNesting leaves out calls in the error of a template that includes itself. The
// text otherwise has thousands of calls before the cause.
func withoutNesting(err error) error {
	calls := strings.Split(err.Error(), nestedCall)
	left := len(calls) - maxNestedCalls
	if left <= 0 {
		return err
	}
	kept := slices.Concat(calls[:maxNestedCalls-1], []string{fmt.Sprintf("(%d calls left out)", left)}, calls[len(calls)-1:])
	return &shortError{text: strings.Join(kept, nestedCall), err: err}
}
