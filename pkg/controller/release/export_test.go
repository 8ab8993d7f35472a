// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

// The delays and limits that the tests of whole passes need.
const (
	BusyRetry        = busyRetry
	MaxRequestLength = maxRequestLength
	NewRevisionTime  = newRevisionTime
	RefusedRetry     = refusedRetry
	RetrySoon        = retrySoon
	SettleTime       = settleTime
)
