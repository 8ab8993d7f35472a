// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet measures the kubectl plugin in a namespace with many DemoApps on a real API server.
package fleet
