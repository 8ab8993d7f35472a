// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests the operator's own life: that it can be killed, ended, replaced and restarted at any moment, and
// that it asks for nothing while there is nothing to do, and for no more than it needs when there is.
//
// The tests start their operators themselves. They run one after another, because each operator watches all namespaces
// and there is one lease. That is also why they are not in package integration, whose operator runs all the time.
package lifecycle
