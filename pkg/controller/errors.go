// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrNotSynced is returned by [Controller.Run] when a cache did not sync in
// time. The message names the informers.
var ErrNotSynced = errors.New("caches not synced")

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
func (e *terminalError) terminal()     {}

// Terminal marks err as one that a retry cannot resolve. The object waits for a change, or for Result.RequeueAfter if
// that is set. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err: err}
}

// IsTerminal reports whether err is marked by [Terminal]. A joined error is
// terminal only when each of its branches is, so that a failed status write
// beside a terminal error is still retried.
func IsTerminal(err error) bool {
	return every(err, func(link error) bool {
		_, ok := link.(interface{ terminal() })
		return ok
	})
}

// isConflict reports whether err is, in each of its branches, a conflict: a
// real failure joined with a conflict must not be retried quietly.
func isConflict(err error) bool {
	return every(err, func(link error) bool {
		_, ok := link.(apierrors.APIStatus)
		return ok && apierrors.IsConflict(link)
	})
}

// every reports whether matches holds for a link of err's chain and, where the
// chain forks, for a link of every branch.
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
