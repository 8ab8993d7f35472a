// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claim assigns a value, such as a host, to one object of a kind at a time.
//
// An object requests a value in its spec, and holds the value that its status records. The holder
// keeps the value, so that an older object of another tenant cannot take over the value. While no
// object holds the value, the oldest object that requests it gets it.
//
// The index and the watches span all namespaces of the operator. When a claim changes, at most one
// other claimant of a value is queued: the claimant that gains or loses the value.
//
// A kind with a different rule uses only [Claims.AddIndex] and [Claims.Others]. DemoApp is such a
// kind: within a namespace, which has one tenant, the oldest DemoApp that requests a value gets it,
// even while another holds it. With one rule for both, either an older object of another tenant
// takes over a host here, or the DemoApp that is refused changes there.
package claim
