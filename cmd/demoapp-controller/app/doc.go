// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the demoapp-controller process: flags, clients, leadership, endpoints, and the order in which
// all of it starts and stops.
//
// # Start
//
// Flags become Options, and valid Options become a Config. Run then binds the HTTP endpoints, so that a taken port is
// reported before anything else happens; checks that the API server answers, waits until it serves our CRDs, and checks
// that the lease can be kept; starts the services (events, informers, the Helm engine); and campaigns for the lease. The services run
// on a standby too: its caches are warm, and it is ready, before it leads.
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
//  4. services stop in the reverse order of their start: engine and informers, then events (the last ones are
//     delivered), then HTTP.
//
// The process exits with 0 after an orderly stop; with 1 when something failed, the lease was lost, or workers had to be
// abandoned; with 2 when a flag is wrong. A second signal ends it at once.
package app
