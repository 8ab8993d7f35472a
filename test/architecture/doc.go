// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package architecture holds, as a test, which package may import which. It says
// the same as the depguard rules in .golangci.yaml, so that a plain "go test
// ./..." notices what the linter would.
package architecture
