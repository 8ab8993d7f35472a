// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllertest makes fake clientsets behave more like an API server, and
// detects changes of read-only objects.
//
// A generated fake clientset stores objects unchanged. [Stamp] adds the behavior
// that a reconciler relies on: UIDs, resource versions, generations, timestamps,
// conflicts, the status subresource, and deletion with finalizers. [NewKube] is a
// clientset for the kinds of workloads, with faster writes. Neither adds
// validation, defaults, garbage collection or RBAC. The integration tests cover
// these with a real API server.
package controllertest
