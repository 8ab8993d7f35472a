// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // An image from scratch has no time zone database.

	"github.com/robfig/cron/v3"
)

// longestShift bounds a change of the local time. The largest change in the time zone
// database is a day, when a country crossed the date line.
const longestShift = 24 * time.Hour

// parser accepts five fields or a name such as @daily.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Window opens at each time of a schedule and stays open for a duration.
type Window struct {
	schedule *cron.SpecSchedule
	location *time.Location
	duration time.Duration
}

// Parse returns a window. The schedule has five cron fields or is a name such as
// @daily. The time zone is a name of the IANA database; an empty name is UTC. The
// error names the invalid argument and the reason.
func Parse(schedule, timeZone string, duration time.Duration) (Window, error) {
	if duration <= 0 {
		return Window{}, fmt.Errorf("duration %s is not longer than 0", duration)
	}
	location, err := ParseTimeZone(timeZone)
	if err != nil {
		return Window{}, err
	}
	spec, err := parseSchedule(schedule)
	if err != nil {
		return Window{}, fmt.Errorf("schedule %q cannot be understood: %w", schedule, err)
	}
	return Window{schedule: spec, location: location, duration: duration}, nil
}

// ParseTimeZone returns the time zone of a name of the IANA database; an empty name is UTC.
func ParseTimeZone(name string) (*time.Location, error) {
	if name == "Local" {
		// Reject the time zone of the machine, because it is not visible in the spec.
		return nil, fmt.Errorf("time zone %q is not one of the IANA database", name)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not one of the IANA database, such as Europe/Berlin", name)
	}
	return location, nil
}

// parseSchedule rejects two forms that the parser accepts: a schedule with its own
// time zone, and an interval, which has no defined start.
func parseSchedule(text string) (*cron.SpecSchedule, error) {
	if strings.Contains(text, "=") {
		return nil, errors.New("it must not name a time zone")
	}
	if strings.HasPrefix(text, "@every") {
		return nil, errors.New("@every is not supported")
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w; it takes minute, hour, day of month, month and day of week, or a name such as @daily", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("it is not a schedule")
	}
	// Local times are represented as UTC, see localTime.
	spec.Location = time.UTC
	if leapYear := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC); spec.Next(leapYear).IsZero() {
		return nil, errors.New("no date matches it")
	}
	return spec, nil
}

// Schedule is a sequence of times.
type Schedule struct{ spec *cron.SpecSchedule }

// ParseSchedule returns a schedule in a time zone. Its times are the same as for a CronJob of
// Kubernetes, also when the local time changes. The text has the same form as for [Parse].
func ParseSchedule(text string, location *time.Location) (Schedule, error) {
	spec, err := parseSchedule(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q cannot be understood: %w", text, err)
	}
	spec.Location = location
	return Schedule{spec}, nil
}

// Next returns the first time of the schedule after t; zero without such a time within five years.
func (s Schedule) Next(t time.Time) time.Time { return s.spec.Next(t) }

// At reports whether the window is open at now. If the window is closed, opens is the
// time of its next opening, or zero if that is years away.
func (w Window) At(now time.Time) (open bool, opens time.Time) {
	// Visit all openings that can be less than a duration ago, in the order of the local
	// time. That order can differ from the order of time by longestShift.
	local := localTime(now.Add(-w.duration).In(w.location)).Add(-longestShift)
	var latest time.Time
	for {
		local = w.schedule.Next(local)
		if local.IsZero() || !latest.IsZero() && local.After(latest) {
			return false, opens
		}
		opening := w.opening(local)
		switch {
		case opening.After(now):
			if opens.IsZero() || opening.Before(opens) {
				opens = opening
			}
			if latest.IsZero() {
				latest = local.Add(longestShift)
			}
		case now.Before(opening.Add(w.duration)):
			return true, time.Time{}
		}
	}
}

// localTime returns the local time of t, represented as UTC.
func localTime(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// opening returns the first occurrence of a local time. If a change of the local time
// skips it, opening uses the UTC offset before the change.
func (w Window) opening(local time.Time) time.Time {
	guess := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, w.location)
	changed, _ := guess.ZoneBounds()
	if changed.IsZero() {
		return guess
	}
	// The time with the UTC offset before the last change.
	unchanged := withOffsetAt(local, changed.Add(-time.Nanosecond))
	if localTime(guess).Equal(local) {
		if unchanged.Before(changed) {
			return unchanged // The local time occurs twice, and this is the first time.
		}
		return guess
	}
	if local.Before(localTime(changed)) {
		return unchanged
	}
	return withOffsetAt(local, guess)
}

// withOffsetAt converts a local time to a time, with the UTC offset that applies at
// another time.
func withOffsetAt(local, at time.Time) time.Time {
	_, offset := at.Zone()
	return local.Add(-time.Duration(offset) * time.Second).In(at.Location())
}
