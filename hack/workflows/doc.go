// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workflows checks the workflows of GitHub in .github/workflows: with actionlint, and by
// rules of this repository. It has only tests.
package workflows
