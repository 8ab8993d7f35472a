// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller is the plumbing that every kind shares: a queue that
// remembers why, a worker loop that stops well, and event handlers that lose
// nothing. It knows no kind; a kind's room brings a [Reconciler] and informers.
//
// # From an event to a reconcile
//
// A handler ([SpecHandler], [OwnedHandler], [MapHandler]) sees an event on a
// shared informer and calls [Controller.Enqueue] with the object's key and the
// reason. The reason is marked beside the queue first and the key is added
// second; a worker that takes the key takes the reasons before the reconciler
// reads the cache. Whatever is marked later therefore either is seen by this
// pass or leads to another one. Because the reason is not part of the key, the
// workqueue still merges equal keys and never runs one key twice at a time.
// Keys are taken in the order in which they were added, whatever their reasons.
//
// Timers work the same way. [Controller.EnqueueAfter] and
// [Result].RequeueAfter set a deadline per key and reason; the same reason
// replaces its earlier deadline, and another one leaves it alone. client-go's
// delaying queue remembers a single wake-up per key, the earliest, so each
// time a key is taken the next deadline is armed again: a retry in a second
// does not erase a resync in ten minutes. A wake-up that finds nothing due
// does not reach the reconciler.
//
// # From a reconcile to the next
//
// A pass that returns no error settles its reasons, forgets its failures and
// sets the next periodic pass as Result says. A pass that fails hands its
// reasons on: the next pass gets them again, together with [Retry], whatever
// it was that started it. When that next pass comes depends on the error:
//
//   - any error: after an exponential delay per object, from
//     Options.BaseDelay to Options.MaxDelay, with jitter, for ever;
//   - a conflict (409): after a shorter delay, and logged at verbosity 4 only,
//     because a newer version of the object is already on its way;
//   - an [*UnfilledError] without a failure: as a conflict, or when the
//     informer is filled;
//   - [Terminal]: on the next change, or at Result.RequeueAfter where set;
//   - a panic: recovered, logged with its stack, then as any error.
//
// A change of the spec starts the delays afresh. An object that is gone needs
// no call to clean up: its last pass returns the zero Result and no error, and
// nothing about the key is kept.
//
// # Waiting
//
// A pass that waits for something slow, such as the end of a Job, calls
// [ReleaseWorker] first. Another object is then reconciled in the meantime. The
// number of passes that wait is bounded (Options.MaxWaiting, and half of that for
// one namespace), and so is the number of those that work (Options.Workers).
//
// # Starting and stopping
//
// [New] starts nothing. [Controller.Run] waits for the informers (an informer
// that never syncs is named in the error), then works until one of its two
// contexts ends. When stop ends, nothing new starts and what is in flight
// finishes. When lead ends, the contexts in flight are canceled as well,
// because another replica may have begun. Run returns when its workers have
// returned, so that the caller can release the lease after it.
package controller
