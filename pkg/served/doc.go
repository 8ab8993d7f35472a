// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package served knows which kinds the API server serves, and follows them. CRDs may be missing at
// first, and may be changed, removed and created again later.
//
// A [Cache] caches discovery and watches the metadata of all CRDs and API services. The Helm engine
// has the cache of the process. A [Follower] runs a controller while the cache shows its kind, and
// a [Runner] replaces the followed kinds.
//
// Three users need an answer that the cache does not have:
//   - An operator without a Helm engine has no cache, and a kind may wait for a CRD before there is
//     an engine. The operator takes a [Snapshot] for each check of its waiting kinds, because it
//     also checks while it may not watch CRDs. Between the checks, it watches the [Definition] of
//     each missing kind only. The metadata of a CRD does not change its meaning when the CRD is
//     established, so that the cache would cost a discovery for each change of any CRD.
//   - DemoApp watches the Definition of HTTPRoute. Its status reports when the operator may not
//     watch the CRD, and a deletion of the CRD counts before discovery shows it.
//   - A kind of children that need not be installed starts as an optional part of its operator.Kind.
//     If its CRD is removed later, the answers to the writes of its children show that first, and
//     its informer's next list shows the return of the CRD. Neither costs a request.
package served
