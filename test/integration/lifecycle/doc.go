// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests a process of the operator from its start to its end: flags, other charts
// and binaries, idle time, and release records that it finds.
//
// The tests start their operators themselves. They run one after another, because each operator
// watches all namespaces and there is one lease. So do the packages handover and variants, each
// with a control plane of its own.
package lifecycle
