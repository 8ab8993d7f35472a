// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package overlay lays the own writes of a process over an informer's store.
//
// A store lags behind the API server. Without the overlay, a decision right after an own
// write takes the old state for a change by others, and acts twice.
//
// client-go's MutationCache does not serve here. It holds at most 100 objects, so that a
// burst of writes pushes out entries that are still needed. It forgets by time, not when
// the store has caught up, and it does not know deletions.
//
// Two narrower memories stand beside it. controller.Latest is for objects that their own
// controller never creates, so it needs to know only whether its version is newer than the
// cached one, and when the object is gone. child.Keeper returns an object that it deleted
// as leaving, which a View hides.
package overlay
