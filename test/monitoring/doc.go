// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring reads the rules and dashboards of artifacts/monitoring, and tests them with
// Prometheus' own code.
//
//   - promtool, built from the version that go.mod pins, checks the rules and runs the tests in
//     testdata/alerts. Each alert has a case in which it fires and a case in which it is quiet.
//   - Each expression of a rule and of a dashboard is parsed. Each metric and each label in it
//     exists in artifacts/monitoring/metrics.json, the list of the operator's metrics, or in a
//     short list of other metrics.
//   - Each alert has a runbook in docs/runbooks.
//
// The module is separate from the operator's, which does not need Prometheus' requirements.
package monitoring
