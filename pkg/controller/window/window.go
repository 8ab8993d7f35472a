// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package window

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // An image made from scratch has no time zones.

	"github.com/robfig/cron/v3"
)

// longestShift bounds by how much a change of the wall clock can put times out of
// their order. The largest in the database of time zones is a day, where a
// country has crossed the date line.
const longestShift = 24 * time.Hour

// parser takes five fields or a name such as @daily.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Window is open for a duration from each time of a schedule on.
type Window struct {
	schedule *cron.SpecSchedule
	location *time.Location
	duration time.Duration
}

// Parse returns the window that opens by the schedule, five fields of cron or a
// name such as @daily, in a time zone of the IANA database; an empty one is UTC.
// The error says in a sentence which of them is wrong and why.
func Parse(schedule, timeZone string, duration time.Duration) (Window, error) {
	if duration <= 0 {
		return Window{}, fmt.Errorf("duration %s is not longer than 0", duration)
	}
	location, err := parseTimeZone(timeZone)
	if err != nil {
		return Window{}, err
	}
	spec, err := parseSchedule(schedule)
	if err != nil {
		return Window{}, fmt.Errorf("schedule %q cannot be understood: %w", schedule, err)
	}
	return Window{schedule: spec, location: location, duration: duration}, nil
}

func parseTimeZone(name string) (*time.Location, error) {
	if name == "Local" {
		// That of the machine, which nobody could tell from the outside.
		return nil, fmt.Errorf("time zone %q is not one of the IANA database", name)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not one of the IANA database, such as Europe/Berlin", name)
	}
	return location, nil
}

// parseSchedule keeps from the parser what it would take beside a schedule: a
// time zone of its own, and intervals that begin at no time in particular.
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
	// The wall clock is written as if it were UTC: see Window.opening.
	spec.Location = time.UTC
	if leapYear := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC); spec.Next(leapYear).IsZero() {
		return nil, errors.New("there is no such day")
	}
	return spec, nil
}

// At reports whether the window is open at a time. If it is not, opens is when it
// opens next; zero when that is years away.
func (w Window) At(now time.Time) (open bool, opens time.Time) {
	// What may have opened the window within its duration, in the order of the
	// wall clock, which is not quite that of time.
	wall := wallClock(now.Add(-w.duration).In(w.location)).Add(-longestShift)
	var latest time.Time
	for {
		wall = w.schedule.Next(wall)
		if wall.IsZero() || !latest.IsZero() && wall.After(latest) {
			return false, opens
		}
		opening := w.opening(wall)
		switch {
		case opening.After(now):
			if opens.IsZero() || opening.Before(opens) {
				opens = opening
			}
			if latest.IsZero() {
				latest = wall.Add(longestShift)
			}
		case now.Before(opening.Add(w.duration)):
			return true, time.Time{}
		}
	}
}

// wallClock is what the clock on the wall shows, written as if it were UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// opening is when the clock on the wall first shows a time; for one that it
// skips, when it would have shown it had it not been changed.
func (w Window) opening(wall time.Time) time.Time {
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, w.location)
	changed, _ := guess.ZoneBounds()
	if changed.IsZero() {
		return guess
	}
	// As if the clock had not been changed the last time.
	unchanged := inZoneOf(wall, changed.Add(-time.Nanosecond))
	if wallClock(guess).Equal(wall) {
		if unchanged.Before(changed) {
			return unchanged // The clock showed it before, too.
		}
		return guess
	}
	if wall.Before(wallClock(changed)) {
		return unchanged
	}
	return inZoneOf(wall, guess)
}

// inZoneOf is when the wall clock shows a time, at the distance from UTC that
// holds at another time.
func inZoneOf(wall, at time.Time) time.Time {
	_, offset := at.Zone()
	return wall.Add(-time.Duration(offset) * time.Second).In(at.Location())
}
