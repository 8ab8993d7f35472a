// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package window_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/example/demoapp-controller/pkg/window"
)

// FuzzWindow checks arbitrary schedules. Parse rejects the schedule, or its window is open
// or opens later. Neither Parse nor At panics or allocates much memory.
func FuzzWindow(f *testing.F) {
	for _, schedule := range []string{
		"0 2 * * 6", "@daily", "@every 1s", "* * * * *", "0 0 30 2 *", "0 0 29 2 *", "*/0 * * * *", "1-0 * * * *", "0-4294967295 * * * *",
		"TZ=UTC 0 0 * * *", "CRON_TZ= 0 0 * * *", "? ? ? ? ?", "1,2,3/4 * * * *", "0 0 * jan mon", "-1 * * * *", "*/99999999999999999999 * * * *", "",
	} {
		f.Add(schedule, "Europe/Berlin", int64(3600), int64(1_750_000_000))
	}
	f.Add("0 2 * * *", "../etc/passwd", int64(60), int64(0))
	f.Add("30 2 * * *", "Pacific/Apia", int64(604800), int64(1_325_239_200))
	f.Fuzz(func(t *testing.T, schedule, timeZone string, seconds, unix int64) {
		if len(schedule) > 1<<20 || len(timeZone) > 1<<20 || seconds > int64(7*24*time.Hour/time.Second) || unix < 0 || unix > 4_000_000_000 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		now := time.Unix(unix, 0)
		parsed, err := window.Parse(schedule, timeZone, time.Duration(seconds)*time.Second)
		if err == nil {
			if open, opens := parsed.At(now); open && !opens.IsZero() || !open && !opens.IsZero() && !opens.After(now) {
				t.Errorf("open: %t, opens at %s, now is %s", open, opens, now)
			}
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("allocated %d MiB", took>>20)
		}
	})
}
