// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package overlay combines an informer's store with the writes of this process.
//
// A store lags behind the API server. Without the overlay, a pass right after a write mistakes the
// old version for a change by another client, and writes twice.
//
// client-go's MutationCache is not suitable. It has at most 100 objects, so a burst of writes
// evicts entries that are still needed. Its entries expire after a time, not when the store has
// caught up, and it does not support deletions.
//
// Two similar types have a narrower purpose. controller.Latest is for objects that their controller
// never creates. It needs to know only whether its version is newer than the cached one, and
// whether the object was deleted. child.Keeper returns an object that it deleted as leaving,
// whereas a View hides such an object.
package overlay
