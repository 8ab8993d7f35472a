// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard stops requests of an operation on a release that go beyond the release.
//
// [Bounds] say which objects a release may have, and which service account sends the requests.
// [With] binds them to a context. A [Transport] of the HTTP client checks every request against the
// bounds of its context, so that no code path in Helm or the engine can bypass the check.
package guard
