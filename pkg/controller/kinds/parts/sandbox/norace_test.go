// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package sandbox_test

// maxMemory is the maximum memory that one rendering may allocate.
const maxMemory = 256 << 20
