// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakeapi is an API server in memory for unit tests of clients that send raw
// requests. A test gets its transport, so no network is involved. In a testing/synctest
// bubble the test has a clock of its own and can wait until nothing moves any more.
//
// # Proofs
//
// The server keeps to the parts of the protocol that the Helm engine builds on:
//
//   - server-side apply with real managedFields: the merging is the API server's own code,
//     with the schemas of built-in kinds
//   - resourceVersion, UID, generation and creation time; conflicts on resourceVersion and
//     UID, except for the UID in a status, as for custom resources; an update without a change
//     keeps the resourceVersion
//   - deletion that waits for finalizers, and preconditions on the UID
//   - label selectors, selection by name, and metadata-only answers
//   - lists, and watches that start with the existing objects, break, and expire
//   - discovery of kinds that come and go
//
// Tests count the requests ([Server.TakeRequests]), make them fail at any point
// ([Server.FailNth]), refuse objects ([Server.Refuse]) and act as other clients
// ([Server.Edit]).
//
// # Limits
//
// There is no defaulting, no validation and no CEL, except for strict field validation in
// a dry-run create and the size of Secrets. There is no garbage collection, RBAC,
// admission webhook, API priority or watch cache. The only subresource is the log of pods, and the
// only controllers are the functions of [Server.React]. Time passes only where a test lets it pass.
// Behavior that depends on these is proved on a real API server, in test/conformance and
// test/integration.
package fakeapi
