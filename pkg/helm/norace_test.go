// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package helm

// maxAllocated is how many bytes may be allocated for a megabyte of input.
const maxAllocated = 64 << 20
