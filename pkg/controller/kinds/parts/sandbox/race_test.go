// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package sandbox_test

import "math"

// maxMemory sets no limit, because the race detector allocates more.
const maxMemory = math.MaxInt64
