// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kind runs the pass over one object that all kinds have in common.
//
// A kind states in a [Kind] what is its own: its client, where its status is, the
// steps of a pass, and what its deletion needs. A [Loop] does the rest:
//
//  1. take the newest known version of the object, from the cache or from an own
//     write that the cache does not have yet;
//  2. add the finalizer, or run Finalize and remove it;
//  3. copy the object and run Steps, which write only into the copy's status;
//  4. write the status once, as one apply patch, if it changed, also when a step
//     failed; a status that tells no more than progress may be held back;
//  5. emit the events that the difference between the two statuses is worth;
//  6. hand the error and the time of the next pass to the queue.
//
// It is not a framework: there is no reflection, no registration and no hidden
// goroutine. A kind with needs of its own uses [Loop.Queue] and adds handlers for
// what it watches.
package kind
