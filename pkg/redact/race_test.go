// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package redact

import "math"

// maxMemory bounds nothing: the race detector allocates more.
const maxMemory = math.MaxInt64
