// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node plays the operator on a node that runs containers: installed from artifacts/install.yaml, in pods of its own
// image. Its tests show faults that simulated pods hide. They need Linux and root: see docs/real-node.md.
package node
