// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the operator from the outside: as a process, under its own
// ServiceAccount, on a real API server. The descriptions of the API (pkg/apis/demo/v1alpha1) have
// its promises to users; here is a test for each promise.
//
// The package has one control plane and one operator. Each test has its own namespace, and runs in
// parallel with the rest. Tests that need an operator of their own, to kill it for instance, are in
// the packages lifecycle, handover and variants. When all have run, the audit log must show that
// the operator was refused nothing, and was granted nothing that it does not use.
//
// The tests have the build tag integration:
//
//	go test -tags integration ./test/integration/...
package integration
