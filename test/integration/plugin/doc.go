// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin tests the kubectl plugin with the operator on a real API server.
package plugin
