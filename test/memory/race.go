// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package memory

import "math"

// Limit bounds nothing: the race detector allocates many times as much.
const Limit = math.MaxInt64
