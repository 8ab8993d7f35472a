// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrNotSynced means that an informer has not delivered its first list.
var ErrNotSynced = errors.New("caches not synced")

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
func (e *terminalError) terminal()     {}

// Terminal marks err as an error that a retry cannot resolve. The object is reconciled again at its
// next change, or after Result.RequeueAfter if it is set. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err: err}
}

// IsTerminal reports whether err is marked by [Terminal]. A joined error is terminal only if each
// of its branches is terminal. A failed status write that is joined with a terminal error is
// therefore retried.
func IsTerminal(err error) bool {
	return every(err, func(link error) bool {
		_, ok := link.(interface{ terminal() })
		return ok
	})
}

// isConflict reports whether each branch of err is a conflict. A failure that is
// joined with a conflict must be logged, as any failure.
func isConflict(err error) bool {
	return every(err, func(link error) bool {
		_, ok := link.(apierrors.APIStatus)
		return ok && apierrors.IsConflict(link)
	})
}

// IsFailure reports whether a worker logs the error of a pass as an error. Conflicts, pending
// informers and the end of ctx are part of normal operation.
func IsFailure(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && (IsTerminal(err) || !isConflict(err) && !IsPending(err))
}

// every reports whether matches is true for an error in err's chain. If the chain
// forks into branches, matches must be true for an error in each of them.
func every(err error, matches func(error) bool) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if matches(err) {
			return true
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			branches := joined.Unwrap()
			fails := func(branch error) bool { return !every(branch, matches) }
			return len(branches) > 0 && !slices.ContainsFunc(branches, fails)
		}
	}
	return false
}

// maxLogged is the number of bytes of an error that are logged. An admission webhook may
// answer with megabytes.
const maxLogged = 4 << 10

// forLog returns err with a text of at most maxLogged bytes.
func forLog(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= maxLogged {
		return err
	}
	return errors.New(strings.ToValidUTF8(text[:maxLogged], "") + "...")
}
