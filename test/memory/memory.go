// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory lets tests hold that code allocates a bounded amount of memory, whatever its input
// is.
package memory

import "runtime/metrics"

// Allocated returns the bytes that the process has allocated so far, including garbage.
func Allocated() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
