// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install tests the three ways to install the operator: artifacts/install.yaml, the
// kustomize base artifacts/deploy and the Helm chart artifacts/chart/demoapp-controller.
//
// Without a cluster, the tests render all three and compare them, and check the effect of each
// value of the chart. With the build tag integration, they install each of them on a real API
// server, and run the operator as the rendered Deployment says.
package install
