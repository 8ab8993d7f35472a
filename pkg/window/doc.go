// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package window computes whether a time window is open, and when it opens next. A
// cron schedule defines when the window opens. The functions are pure: the caller
// passes the time. The binary contains the time zone database, for systems without
// one.
//
// # Daylight-saving time
//
// The schedule is in the local time of its time zone. If a change of the local time
// skips an opening, the window opens later by the size of the change, usually an
// hour. If a local time occurs twice, the window opens at its first occurrence
// only. The duration of the window is elapsed time: a change of the local time does
// not affect it.
package window
