// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package values

// maxParseMemory is how many bytes the parsing of one document may allocate in all,
// garbage included.
const maxParseMemory = 64 << 20
