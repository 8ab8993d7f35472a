// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package window tells whether a window of time that opens by a cron schedule is
// open, and when it opens next. It is pure: the time is given, and the time
// zones are those of the binary where the system has none.
//
// # Daylight-saving time
//
// The schedule is read as the clock on the wall of its time zone. A time that
// the wall clock skips opens the window that much later, usually by an hour; a
// time that it shows twice opens the window the first time only. How long the
// window stays open is time that passes, whatever the wall clock does meanwhile.
package window
