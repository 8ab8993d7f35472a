// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-demoapp is a kubectl plugin for the objects of this operator: their state, the
// reasons why they wait, and the effects of a change. kubectl finds it on PATH as "kubectl
// demoapp". See docs/cli.md.
package main
