// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package window

import (
	"strings"
	"testing"
	"time"
)

const berlin = "Europe/Berlin"

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestAt(t *testing.T) {
	const open = "open"
	tests := []struct {
		name, schedule, zone string
		duration             time.Duration
		// want maps a time to the next opening, or to open.
		want map[string]string
	}{
		{"every night", "0 2 * * *", "", 2 * time.Hour, map[string]string{
			"2026-01-10T01:59:59Z": "2026-01-10T02:00:00Z",
			"2026-01-10T02:00:00Z": open,
			"2026-01-10T03:59:59Z": open,
			"2026-01-10T04:00:00Z": "2026-01-11T02:00:00Z",
		}},
		{"in a time zone", "0 2 * * *", berlin, 2 * time.Hour, map[string]string{
			"2026-01-10T00:59:59Z": "2026-01-10T02:00:00+01:00",
			"2026-01-10T01:00:00Z": open,
			"2026-07-10T00:00:00Z": open,
			"2026-07-10T02:00:00Z": "2026-07-11T02:00:00+02:00",
		}},
		{"over midnight", "30 22 * * 5", "", 4 * time.Hour, map[string]string{
			"2026-01-09T22:29:00Z": "2026-01-09T22:30:00Z",
			"2026-01-10T00:00:00Z": open,
			"2026-01-10T02:29:59Z": open,
			"2026-01-10T02:30:00Z": "2026-01-16T22:30:00Z",
		}},
		{"duration longer than the period", "0 * * * *", "", 90 * time.Minute, map[string]string{
			"2026-01-10T00:00:00Z": open,
			"2026-01-10T00:59:59Z": open,
			"2026-01-10T13:30:00Z": open,
		}},
		{"duration equal to the period", "@daily", "", 24 * time.Hour, map[string]string{
			"2026-01-10T23:59:59Z": open,
			"2026-01-11T00:00:00Z": open,
		}},
		{"longest duration, once a month", "0 0 1 * *", "", 168 * time.Hour, map[string]string{
			"2026-01-07T23:59:59Z": open,
			"2026-01-08T00:00:00Z": "2026-02-01T00:00:00Z",
		}},
		{"shortest duration", "15 6 * * *", "", time.Minute, map[string]string{
			"2026-01-10T06:15:59.999999999Z": open,
			"2026-01-10T06:16:00Z":           "2026-01-11T06:15:00Z",
		}},
		{"skipped time in spring", "30 2 * * *", berlin, time.Hour, map[string]string{
			"2026-03-28T02:29:59+01:00": "2026-03-28T02:30:00+01:00",
			"2026-03-29T01:59:59+01:00": "2026-03-29T03:30:00+02:00",
			"2026-03-29T03:00:00+02:00": "2026-03-29T03:30:00+02:00",
			"2026-03-29T03:30:00+02:00": open,
			"2026-03-29T04:29:59+02:00": open,
			"2026-03-29T04:30:00+02:00": "2026-03-30T02:30:00+02:00",
		}},
		{"two times in the skipped hour", "0,30 2 * * *", berlin, 10 * time.Minute, map[string]string{
			"2026-03-29T01:59:00+01:00": "2026-03-29T03:00:00+02:00",
			"2026-03-29T03:00:00+02:00": open,
			"2026-03-29T03:10:00+02:00": "2026-03-29T03:30:00+02:00",
			"2026-03-29T03:40:00+02:00": "2026-03-30T02:00:00+02:00",
		}},
		{"skipped time opens after a later time", "30,15 2,3 * * *", berlin, time.Minute, map[string]string{
			// The skipped 02:30 opens at 03:30, after 03:15.
			"2026-03-29T01:59:00+01:00": "2026-03-29T03:15:00+02:00",
			"2026-03-29T03:16:00+02:00": "2026-03-29T03:30:00+02:00",
			"2026-03-29T03:31:00+02:00": "2026-03-30T02:15:00+02:00",
		}},
		{"open during the change in spring", "0 1 * * *", berlin, 2 * time.Hour, map[string]string{
			"2026-03-29T01:00:00+01:00": open,
			"2026-03-29T03:59:59+02:00": open,
			"2026-03-29T04:00:00+02:00": "2026-03-30T01:00:00+02:00",
		}},
		{"repeated time in autumn", "30 2 * * *", berlin, 30 * time.Minute, map[string]string{
			"2026-10-25T02:29:59+02:00": "2026-10-25T02:30:00+02:00",
			"2026-10-25T02:30:00+02:00": open,
			"2026-10-25T02:00:00+01:00": "2026-10-26T02:30:00+01:00",
			"2026-10-25T02:30:00+01:00": "2026-10-26T02:30:00+01:00",
		}},
		{"open during the change in autumn", "0 1 * * *", berlin, 2 * time.Hour, map[string]string{
			"2026-10-25T01:00:00+02:00": open,
			"2026-10-25T02:30:00+02:00": open,
			"2026-10-25T02:00:00+01:00": "2026-10-26T01:00:00+01:00",
		}},
		{"every hour of the day in autumn", "0 * * * *", berlin, 10 * time.Minute, map[string]string{
			"2026-10-25T02:05:00+02:00": open,
			"2026-10-25T02:00:00+01:00": "2026-10-25T03:00:00+01:00",
		}},
		{"open over midnight and the change in spring", "0 23 * * 6", berlin, 5 * time.Hour, map[string]string{
			"2026-03-28T23:00:00+01:00": open,
			"2026-03-29T04:59:59+02:00": open,
			"2026-03-29T05:00:00+02:00": "2026-04-04T23:00:00+02:00",
		}},
		{"skipped midnight", "0 0 * * *", "America/Santiago", time.Hour, map[string]string{
			"2026-09-05T23:59:59-04:00": "2026-09-06T01:00:00-03:00",
			"2026-09-06T01:00:00-03:00": open,
			"2026-09-06T02:00:00-03:00": "2026-09-07T00:00:00-03:00",
		}},
		{"skipped half hour", "15 2 * * *", "Australia/Lord_Howe", time.Hour, map[string]string{
			"2026-10-04T01:59:00+10:30": "2026-10-04T02:45:00+11:00",
			"2026-10-04T02:45:00+11:00": open,
		}},
		{"skipped day", "0 12 30 12 *", "Pacific/Apia", time.Hour, map[string]string{
			"2011-12-29T23:00:00-10:00": "2011-12-31T12:00:00+14:00",
			"2011-12-31T12:30:00+14:00": open,
		}},
		{"leap years only", "0 0 29 2 *", "", time.Hour, map[string]string{
			"2026-01-01T00:00:00Z": "2028-02-29T00:00:00Z",
			"2028-02-29T00:30:00Z": open,
		}},
		{"years away", "0 0 29 2 *", "", time.Hour, map[string]string{
			"2096-03-01T00:00:00Z": "0001-01-01T00:00:00Z",
		}},
		{"every minute", "* * * * *", berlin, time.Minute, map[string]string{
			"2026-03-29T01:59:59+01:00": open,
			"2026-03-29T03:00:00+02:00": open,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, err := Parse(test.schedule, test.zone, test.duration)
			if err != nil {
				t.Fatal(err)
			}
			for now, want := range test.want {
				isOpen, opens := w.At(at(t, now))
				got := open
				if !isOpen {
					got = opens.Format(time.RFC3339)
				}
				if got != want {
					t.Errorf("at %s: %s, want %s", now, got, want)
				}
			}
		})
	}
}

// TestWindowOpensAsAnnounced checks that the window opens exactly at the announced
// time, around the daylight-saving changes of a year in several time zones.
func TestWindowOpensAsAnnounced(t *testing.T) {
	for _, zone := range []string{"", berlin, "America/New_York", "Africa/Casablanca", "Asia/Kathmandu", "Australia/Lord_Howe"} {
		for _, schedule := range []string{"30 2 * * *", "*/20 1-3 * * *", "0 0 * * 0", "45 23 * * *"} {
			w, err := Parse(schedule, zone, 17*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			now := at(t, "2026-03-26T00:00:00Z")
			for end := now.AddDate(0, 7, 0); now.Before(end); {
				if now.Month() == time.April && now.Day() > 6 && now.Day() < 28 {
					now = at(t, "2026-09-25T00:00:00Z")
				}
				_, opens := w.At(now)
				if opens.IsZero() {
					now = now.Add(time.Minute)
					continue
				}
				if early, _ := w.At(opens.Add(-time.Nanosecond)); early {
					t.Fatalf("%q in %q: open before %s", schedule, zone, opens)
				}
				if isOpen, _ := w.At(opens); !isOpen || !opens.After(now) {
					t.Fatalf("%q in %q at %s: not open at %s", schedule, zone, now, opens)
				}
				now = opens.Add(17 * time.Minute)
			}
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, schedule, zone string
		duration             time.Duration
		want                 string
	}{
		{"too few fields", "0 2 * *", "", time.Hour, `schedule "0 2 * *" cannot be understood: expected exactly 5 fields`},
		{"a minute that does not exist", "60 2 * * *", "", time.Hour, "above maximum (59)"},
		{"words", "at two in the night", "", time.Hour, "failed to parse int"},
		{"empty", "", "", time.Hour, "empty spec"},
		{"an unknown name", "@sometimes", "", time.Hour, "@sometimes"},
		{"an interval", "@every 5m", "", time.Hour, "@every is not supported"},
		{"schedule with a time zone", "CRON_TZ=UTC 0 2 * * *", "", time.Hour, "it must not name a time zone"},
		{"only a time zone", "TZ=0", "", time.Hour, "it must not name a time zone"},
		{"a day that does not exist", "0 0 30 2 *", "", time.Hour, "no date matches it"},
		{"an unknown time zone", "@daily", "Europe/Atlantis", time.Hour, `time zone "Europe/Atlantis" is not one of the IANA database`},
		{"the machine's time zone", "@daily", "Local", time.Hour, `time zone "Local" is not one of the IANA database`},
		{"a path as time zone", "@daily", "../../etc/passwd", time.Hour, "is not one of the IANA database"},
		{"no duration", "@daily", "", 0, "duration 0s is not longer than 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(test.schedule, test.zone, test.duration)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, without %q", err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0 2 * * *", berlin)
	f.Add("TZ=0", "Local")
	f.Fuzz(func(t *testing.T, schedule, zone string) {
		if w, err := Parse(schedule, zone, time.Hour); err == nil {
			w.At(at(t, "2026-03-29T00:59:00Z"))
		}
	})
}

func TestScheduleNext(t *testing.T) {
	tests := []struct{ name, schedule, zone, after, want string }{
		{"every night", "0 2 * * *", "", "2026-01-10T01:59:59Z", "2026-01-10T02:00:00Z"},
		{"after its time", "0 2 * * *", "", "2026-01-10T02:00:00Z", "2026-01-11T02:00:00Z"},
		{"in a time zone", "0 2 * * *", berlin, "2026-07-10T00:00:00Z", "2026-07-11T00:00:00Z"},
		{"by name", "@monthly", "", "2026-01-10T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"a local time that is skipped", "30 2 * * *", berlin, "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			location, err := ParseTimeZone(test.zone)
			if err != nil {
				t.Fatal(err)
			}
			schedule, err := ParseSchedule(test.schedule, location)
			if err != nil {
				t.Fatal(err)
			}

			next := schedule.Next(at(t, test.after))

			if !next.Equal(at(t, test.want)) {
				t.Errorf("next time is %v, want %s", next, test.want)
			}
		})
	}
}
