// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import "time"

const (
	// firstLook is the time that pods have to start before a look at why they do not.
	firstLook = 3 * time.Second
	// rareLook is the longest time between two looks.
	rareLook = 15 * time.Minute
)

// NextLook returns the time until the next look at the pods or events of a workload that has not
// been healthy for some time. It grows with this time.
func NextLook(unhealthy time.Duration) time.Duration { return min(max(unhealthy, firstLook), rareLook) }
