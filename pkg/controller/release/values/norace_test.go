// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package values

// maxParseMemory limits the bytes that the parsing of one document may allocate,
// including garbage.
const maxParseMemory = 64 << 20
