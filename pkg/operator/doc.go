// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator runs the process of an operator: clients, leader election, health, metrics,
// logging, and the order of start and stop. It depends on no kind. A program passes its kinds to
// [Main], or to [Run] if it parses its flags itself; the example shows a whole main.
// docs/library.md is the guide for authors.
//
// # Kinds
//
// A [Kind] names the custom resources that it needs, and has a function Build. Build gets an
// [Environment] with the clients and the shared informers. There is no global registration: the
// program lists its kinds. The flag --controllers disables kinds: a kind that [Options.Select]
// omits is not registered, and sends no requests.
//
// A kind is built when the API server serves its resources and the operator has its permissions.
// The operator uses discovery, so that it never lists a resource that is not served. A kind without
// its CRD is not installed: one log line names all such kinds, and the operator watches their CRDs,
// which costs no requests. It checks its permissions by a SelfSubjectRulesReview for each
// namespace. If the role does not allow watching an installed kind, the kind waits, and
// controller_kind_waiting is 1. The role may allow watching the kind, but lack [Kind.Rules]. A
// starting process is then not ready, and does not campaign for the lease; in a running process,
// the kind waits. A granted permission causes no event, so the operator checks again at intervals
// from 0.5 seconds to 5 minutes. The other kinds run meanwhile. If a resource disappears later,
// nothing stops: its informers keep their objects and retry until the resource is served again.
//
// Kinds that call [Environment.Informer] with the same name share one informer. Build may add
// indexers and handlers to a running informer.
//
// # Start
//
// [Run] binds the HTTP endpoints first, so that a port conflict is reported before any other step.
// It checks that the API server answers, that the role has the rules of the installed kinds, and
// that the lease can be read and written. It then starts the events and the services of the kinds
// that can start, and campaigns for the lease. Services also run on a standby. A standby is
// therefore ready, and its caches are synced, before it becomes the leader.
//
// The process is ready if at least one kind runs and all caches of the running kinds are synced.
//
// # Two contexts
//
// Controllers get two contexts. When stop ends after a signal, controllers start nothing new and
// finish the work in flight; the process keeps the lease. When lead ends, controllers start nothing
// new, because the lease was not renewed within --leader-elect-renew-deadline. Requests are
// canceled. A Helm operation in flight cannot be canceled safely, so it may continue until one
// second before the lease expires. Then the process ends. If another replica is known to be the
// leader, the process ends without a wait for work in flight. Both times count from the start of
// the last renewal. From the second one on, the clients refuse writes, also in a process that was
// stopped and continues, whose contexts end late.
//
// # Shards
//
// With --shards, all replicas work. They hold the Lease together, under an identity that names the
// number of shards, so the rules of leader election keep out processes with another number. Each
// replica renews an entry on the Lease, once its caches are synced or a minute has passed. A replica
// campaigns for the Lease of a shard while it holds fewer shards than its share, and drains a shard
// while it holds more. The shares differ by one at most. A replica that stops says so in its entry,
// and has no share from then on. controller.Shards keeps its controllers to the namespaces of its
// shards. Losing the common Lease ends the process like the loss of leadership. A controller that
// works for all namespaces runs on the replica that holds shard 0, see [Environment.AddController]
// and [Environment.AddSharded].
//
// # Stop
//
// Each step waits for the previous step:
//
//  1. /readyz answers 503, and the controllers start nothing new;
//  2. workers finish the work in flight, within --shutdown-timeout;
//  3. the last events are delivered, within 2 seconds;
//  4. the lease is released, so that a standby takes over within 2.2 times
//     --leader-elect-retry-period. The release has 5 seconds; a lease that is not released expires;
//  5. services stop in the reverse order of their start: the services of the kinds, the events,
//     then HTTP.
//
// [Run] returns nil after an orderly stop. It returns an error if a part failed, if the lease was
// lost, or if workers did not finish.
package operator
