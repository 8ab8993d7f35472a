// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package picture draws a dashboard with its data as Grafana lays it out: the position, title,
// unit, legend and thresholds of each panel. It draws the types of panels that
// artifacts/monitoring/dashboards has.
package picture
