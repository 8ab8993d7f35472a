// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package values

import (
	"math"
)

// maxParseMemory sets no limit, because the race detector allocates more.
const maxParseMemory = math.MaxInt64
