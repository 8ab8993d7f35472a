// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kind runs the passes over the objects of a kind. All kinds share it.
//
// A [Definition] describes one kind: its client, its status, the steps of a pass, and the
// steps of a deletion. A [Loop] makes the passes:
//
//  1. take the newest version of the object: from the cache, or from a write of this process that
//     the cache does not show yet;
//  2. add the finalizer; or confirm that the API server has the deleted object, run Finalize and
//     remove the finalizer. If only finalizers of other clients keep the object for more than two
//     seconds, the status reports this. Finalize also runs for an object that is gone although it
//     had the finalizer;
//  3. copy the object and run Steps, which write only to the status of the copy;
//  4. if the status changed, write it with one server-side apply, also after a failed
//     step. A status that reports only progress may be held;
//  5. emit the events for the change of the status;
//  6. return the error and the time of the next pass to the queue.
//
// There is no reflection, no registration and no hidden goroutine. To watch further
// objects, a kind adds event handlers that enqueue to [Loop.Queue].
package kind
