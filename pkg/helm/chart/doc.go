// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart loads Helm charts, from a folder, an archive, a registry or a URL, and checks them
// when they are loaded. It refuses charts that the helm command would not install, and limits the
// size of its input.
//
// A [Chart] is its files. [Chart.Digest] identifies them, so that two charts of one version can be
// distinguished. [Chart.CheckValues] validates values by the chart's schema, and [SetValues]
// creates values from assignments, in the format of "helm install --set".
package chart
