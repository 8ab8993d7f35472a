// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package redact

// maxMemory is how many bytes the redaction of long texts may allocate in all.
const maxMemory = 64 << 20
