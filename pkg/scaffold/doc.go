// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaffold makes a kind of a chart: a CRD whose schema has the values of the chart, the
// entry of watches.yaml, the permissions of the operator and of users, and an example.
package scaffold
