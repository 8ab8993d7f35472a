// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllertest makes fake clientsets behave more like an API server,
// and tells when a test's subject changes what it should only read.
//
// A generated fake clientset stores what it is given. [Stamp] adds what a
// reconciler relies on: UIDs, resource versions, generations and times,
// conflicts, the status subresource, and deletion that waits for finalizers.
// It still knows no validation, defaults, garbage collection or RBAC; for
// these there are the tests on a real API server.
package controllertest
