// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration runs the rules and the dashboards of artifacts/monitoring against the
// operator on a real API server. A Prometheus in the test's process scrapes the operator.
package integration
