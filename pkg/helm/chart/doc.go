// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart loads Helm charts, from a folder, an archive, a registry or a URL, and checks them
// when they are loaded. It refuses what the helm command would not install, and bounds what it reads.
//
// A [Chart] is its files. [Chart.Digest] identifies them, so that two charts of one version can be
// told apart. [Chart.CheckValues] validates values by the chart's schema, and [SetValues] makes values
// from assignments such as those of "helm install --set".
package chart
