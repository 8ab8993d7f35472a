// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests the operator's own life: that it can be killed, ended, replaced and restarted at any moment, and
// that it asks for nothing while there is nothing to do, and for no more than it needs when there is.
//
// The package has a control plane of its own, because an operator that watches all namespaces would be in the way. Its
// tests start their operators themselves, and run one after another: there is one lease.
package lifecycle
