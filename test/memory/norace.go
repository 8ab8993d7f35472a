// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package memory

// Limit is how many bytes may be allocated for a megabyte of input.
const Limit = 64 << 20
