// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-demoapp is a kubectl plugin for the objects of this operator: what state they
// are in, what they wait for, and what a change would do. kubectl finds it on PATH as "kubectl
// demoapp". See docs/cli.md.
package main
