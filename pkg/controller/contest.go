// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/example/demoapp-controller/pkg/expiring"
	"github.com/example/demoapp-controller/pkg/message"
)

const (
	// freeCorrections is the number of consecutive corrections without a pause.
	freeCorrections = 5
	// firstPause is the pause before the next correction. The pause doubles with each
	// further correction, up to MaxPause.
	firstPause = time.Second
	// MaxPause is the longest pause between two corrections of an object.
	MaxPause = 5 * time.Minute
	// minQuiet is the minimum time without a correction after which an object is corrected at once
	// again. If twice the pause is longer, twice the pause counts.
	minQuiet = time.Minute
	// maxWriters is the number of other clients of an object that are distinguished. Field managers
	// are only names, so a client could use a new one for each write.
	maxWriters = 4
	// correctionMemory is the time after a correction in which another one of the object counts as
	// repeated. It exceeds twice MaxPause.
	correctionMemory = 15 * time.Minute
)

// Corrections remembers the recent corrections of drifted objects. After a few corrections of one
// object against one other client, further ones wait: without pauses, two clients that set
// different values of one field would write in a tight loop. Such a series of corrections is a
// contest. K identifies an object.
//
// The memory is bounded, because it holds only objects of the last 15 to 30 minutes. Its loss does
// no harm, because the status names the contested objects, see [Corrections.Resume]. Corrections is
// safe for concurrent use if no two goroutines use the same object at a time. The zero value is
// ready to use.
type Corrections[K comparable] struct {
	objects expiring.Map[K, []series]
}

// Contest is the state of the corrections of an object against one other client.
type Contest struct {
	// Begun means that corrections wait. Text describes the contest, and is empty until
	// [Corrections.Describe].
	Begun bool
	Text  string
	// Wait is the time until the next correction; 0 or less if it is due.
	Wait time.Duration
}

// series are consecutive corrections of an object against one client.
type series struct {
	// writer identifies the client. The series counts for all clients if all is set.
	writer uint64
	all    bool
	count  int
	last   time.Time
	text   string
}

func (s series) against(writer uint64) bool { return s.all || s.writer == writer }

// pause is the time between the last correction and the next one.
func (s series) pause() time.Duration {
	if s.count < freeCorrections {
		return 0
	}
	return Doubled(firstPause, MaxPause, int64(s.count-freeCorrections))
}

// Doubled returns a pause that was doubled a number of times, at most longest.
func Doubled(pause, longest time.Duration, times int64) time.Duration {
	for ; times > 0 && pause < longest; times-- {
		pause *= 2
	}
	return min(pause, longest)
}

// end is the end of the series if no further correction follows.
func (s series) end() time.Time { return s.last.Add(max(minQuiet, 2*s.pause())) }

// Against returns the state of the corrections of an object against a client. writer identifies the
// client; 0 is an unknown client, for example the client that deleted the object.
func (c *Corrections[K]) Against(object K, writer uint64, now time.Time) Contest {
	for _, s := range c.current(object, now) {
		if s.against(writer) {
			return Contest{Begun: s.count >= freeCorrections, Text: s.text, Wait: s.last.Add(s.pause()).Sub(now)}
		}
	}
	return Contest{}
}

// Resume continues a contest that an earlier process recorded in the status. It has no effect if
// this process knows corrections of the object.
func (c *Corrections[K]) Resume(object K, writer uint64, now time.Time) {
	if len(c.current(object, now)) == 0 {
		c.set(object, []series{{writer: writer, count: freeCorrections, last: now}}, now)
	}
}

// Describe sets the text of a contest.
func (c *Corrections[K]) Describe(object K, writer uint64, text string, now time.Time) {
	known := slices.Clone(c.current(object, now))
	if i := slices.IndexFunc(known, func(s series) bool { return s.against(writer) }); i >= 0 {
		known[i].text = text
		c.set(object, known, now)
	}
}

// Corrected records the correction of an object of a namespace, and counts it.
func (c *Corrections[K]) Corrected(count DriftCount, namespace string, object K, writer uint64, now time.Time) {
	known := slices.Clone(c.current(object, now))
	i := slices.IndexFunc(known, func(s series) bool { return s.against(writer) })
	switch {
	case i < 0 && len(known) < maxWriters:
		known = append(known, series{writer: writer, count: 1, last: now})
	case i < 0:
		known = []series{{all: true, count: freeCorrections, last: now}}
	default:
		known[i].count++
		known[i].last = now
	}
	count.restored()
	if c.set(object, known, now) {
		count.repeat(namespace, now)
	}
}

// Contests returns the texts of the current contests of an object, and the time until the last of
// them ends if no further correction follows.
func (c *Corrections[K]) Contests(object K, now time.Time) (texts []string, ends time.Duration) {
	for _, s := range c.current(object, now) {
		if s.text != "" {
			texts, ends = append(texts, s.text), max(ends, s.end().Sub(now))
		}
	}
	return texts, ends
}

// Forget drops the objects that match.
func (c *Corrections[K]) Forget(matches func(K) bool) { c.objects.Take(matches) }

// current returns the series of an object that have not ended.
func (c *Corrections[K]) current(object K, now time.Time) []series {
	known, _ := c.objects.Get(object, now)
	return slices.DeleteFunc(slices.Clone(known), func(s series) bool { return !now.Before(s.end()) })
}

// set reports whether the object was corrected lately.
func (c *Corrections[K]) set(object K, known []series, now time.Time) bool {
	return c.objects.Set(object, known, correctionMemory, now)
}

// maxNamed limits how many fields and field managers of an object a message names.
const maxNamed = 3

// ContestText describes a contest about an object. Without fields, another client deletes the
// object. remedy says how a user can resolve it.
func ContestText(kind, name string, fields, managers []string, remedy string) string {
	client := "another client"
	if len(managers) > 0 {
		quoted := make([]string, len(managers))
		for i, manager := range managers {
			quoted[i] = fmt.Sprintf("%q", manager)
		}
		client = "field manager " + message.List(quoted, maxNamed)
	}
	does := "deletes it again"
	if len(fields) > 0 {
		does = "changes " + message.List(fields, maxNamed) + " again"
	} else if len(managers) > 0 {
		does = "changes it again"
	}
	return fmt.Sprintf("%s %q: %s %s after each correction, so corrections wait up to %d minutes; %s",
		kind, name, client, does, int(MaxPause.Minutes()), remedy)
}
