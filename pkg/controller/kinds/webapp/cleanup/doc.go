// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cleanup calls a cleanup hook before an object is gone: an HTTP DELETE to a server
// that the user of the operator names. The object keeps its finalizer until the call
// succeeds.
//
// A call is repeated if the operator ends before the finalizer is removed, so the server
// must accept a second call. Package endpoint bounds the requests.
package cleanup
