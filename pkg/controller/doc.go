// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller is the plumbing that all kinds share: a queue of keys and
// reasons, a worker loop, and event handlers for informers. It depends on no
// kind. The package of a kind supplies a [Reconciler] and informers.
//
// # From an event to a pass
//
// A pass is one call of [Reconciler.Reconcile] for one object.
//
// A handler ([SpecHandler], [OwnedHandler], [MapHandler]) receives an event from
// a shared informer and calls [Controller.Enqueue] with the object's key and a
// reason. Enqueue records the reason first and adds the key to the workqueue
// second. A worker takes the recorded reasons together with the key, before the
// reconciler reads the cache. A reason that is recorded later is in the key's
// next pass, so no event is lost.
//
// The reason is not part of the key. The queue therefore merges equal keys,
// and never hands out one key twice at a time.
//
// # Lanes and turns
//
// Passes for small reasons only ([Drift], [HealthChange]) usually need few requests. They have a
// workqueue and workers of their own, and so do all other passes. So drift does not wait for the
// end of installs. A pass that follows a deadline does.
//
// In each of the two lanes, the namespaces whose keys wait take turns: between two keys of a
// namespace, workers take at most one key of every other namespace. Many keys of one namespace
// therefore do not delay other namespaces. A cluster-scoped key counts as a namespace of its own.
// Otherwise, workers take keys in the order in which the keys were added.
//
// Turns alone would share the workers by the number of passes and not by their time. The passes of
// a namespace in flight therefore bound the passes that it may start: a namespace leaves a fifth of
// the workers free, and as many passes to other namespaces as it has itself. A pass that takes
// longer than a second frees its worker, because it mostly waits for a server, and counts against
// its namespace until it ends.
//
// Timers work the same way. [Controller.EnqueueAfter] and [Result].RequeueAfter
// set a deadline per key and reason. A new deadline replaces only the deadline
// of the same reason, so a retry in a second does not erase a resync in ten
// minutes. client-go's delaying queue keeps one wake-up per key, the earliest,
// so the queue sets the next wake-up each time a key is taken. A wake-up without
// a due deadline starts no pass.
//
// # From a pass to the next one
//
// After a pass without an error, the backoff of the object is reset, and
// [Result].RequeueAfter sets the time of the next periodic pass. After a pass
// with an error, the next pass gets the same reasons again, together with
// [Retry]. The error decides when the object is retried:
//
//   - any error: after an exponential backoff per object, from
//     500 ms to 5 min, with jitter and without end. A pass that an event starts
//     meanwhile, and that fails, too, does not make the delay longer;
//   - a conflict (409): after a shorter backoff, and logged at verbosity 4 only,
//     because the informer is about to deliver the newer version;
//   - an [*UnfilledError] without a failure: as after a conflict, or when the
//     informer has synced;
//   - [Terminal]: at the next change, or after Result.RequeueAfter if it is set;
//   - a panic: the panic is recovered and logged with its stack, then treated
//     as any error.
//
// A change of the spec resets the backoff. A deleted object needs no cleanup
// call: after a last pass with the zero Result and no error, the queue keeps
// nothing about the key.
//
// # Waiting
//
// A pass that waits for something slow, such as the end of a Job, calls
// [ReleaseWorker] first. Another object is reconciled meanwhile.
// [MaxWaiting] bounds the passes that wait. A namespace leaves as many of them to other namespaces
// as it has itself. Options.Workers bounds the passes that run and are not slow.
//
// # Shards
//
// With Options.Shards, replicas divide the namespaces among themselves. Enqueue drops the keys of
// shards that other replicas hold, and no pass over such a key starts. See [Shards].
//
// # Starting and stopping
//
// [New] starts nothing. [Controller.Run] waits until the informers have synced;
// its error names an informer that has not. Run then works until one of its two
// contexts ends. When stop ends, no pass starts and passes in flight finish. When
// lead ends, the contexts of passes in flight are canceled as well, because
// another replica may have become the leader. Run returns after its workers
// have returned, so that the caller can release the lease afterwards.
package controller
