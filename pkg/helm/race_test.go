// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package helm

import "math"

// maxAllocated bounds nothing: the race detector allocates many times as much.
const maxAllocated = math.MaxInt64
