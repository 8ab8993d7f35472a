// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator is what the process of any operator needs: clients, leader election, health, metrics, logging, and the
// order in which all of it starts and stops. It knows no kind. A program hands its kinds to [Run]; the example shows a
// whole main.
//
// # Kinds
//
// A [Kind] states which custom resources it needs and how it is built. Its Build gets an [Environment]: the clients, and
// what kinds share. There is no global registration: the program lists its kinds.
//
// A kind is built once the API server serves its resources and the operator may list and watch them. Until then it waits:
// one line in the log says why, controller_kind_waiting is 1, and the API server is asked again after 0.5 to 15 seconds,
// longer each time. The other kinds run meanwhile. A resource that disappears later stops nothing: the informers keep what
// they hold and retry until it is back.
//
// Informers exist once per process: kinds that ask [Environment.Informer] for the same name share it. Build adds
// indexers and handlers, also to an informer that runs already.
//
// # Start
//
// [Run] binds the HTTP endpoints first, so that a taken port is reported before anything else happens. It checks that the
// API server answers and that the lease can be kept. Then it starts the events, and the services of the kinds that can start, and
// campaigns for the lease. Services run on a standby too: its caches are warm, and it is ready, before it leads.
//
// The process is ready when at least one kind runs and all caches of the running kinds are synced.
//
// # Two contexts
//
// Controllers get two contexts. The end of stop (a signal) means: start nothing new, finish what is in flight; the lease
// is kept meanwhile. The end of lead means: stop at once, since another replica may be leading by now.
//
// # Stop
//
// Each step waits for the one before it:
//
//  1. /readyz answers 503 and the controllers take in nothing new;
//  2. workers finish what is in flight, for as long as --shutdown-timeout;
//  3. the lease is released, so that a standby takes over with its next try, which is at most 2.2 times
//     --leader-elect-retry-period away;
//  4. services stop in the reverse order of their start: those of kinds, then events (the last ones are delivered),
//     then HTTP.
//
// [Run] returns nil after an orderly stop, and an error when something failed, the lease was lost, or workers had to be
// abandoned.
package operator
