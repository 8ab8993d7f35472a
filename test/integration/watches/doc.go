// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watches tests the kinds of watches.yaml on a real API server. The tests share one
// operator, which runs under its ServiceAccount.
package watches
