// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package overlay combines an informer's store with the writes of this process.
//
// A store lags behind the API server. Without the overlay, a pass right after a write mistakes the
// old version for a change by another client, and writes twice.
//
// A [View] is the store with the writes. A [Handler] leaves out the echoes of the writes from the
// watch events. [Flights] hold back events while writes are in flight, because an event may arrive
// before the API server's answer.
//
// client-go's MutationCache is not suitable. It has at most 100 objects, so a burst of writes
// evicts entries that are still needed. Its entries expire after a time, not when the store has
// caught up, and it does not support deletions.
package overlay
