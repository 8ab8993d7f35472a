// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Metrics-docs writes the reference of the operator's metrics: the table in docs/metrics.md, and
// the same as data in artifacts/monitoring/metrics.json, by which rules and dashboards are checked.
// It registers all metrics as the operator does, and reads their descriptions.
package main
