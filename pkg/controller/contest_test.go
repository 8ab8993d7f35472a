// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRepeatedDriftIsCountedByObject(t *testing.T) {
	type correction struct {
		object string
		after  time.Duration
	}
	tests := []struct {
		name        string
		corrections []correction
		repeated    int
	}{
		{"one object, once", []correction{{"a", 0}}, 0},
		{"two objects, once each", []correction{{"a", 0}, {"b", time.Second}}, 0},
		{"one object, again and again", []correction{{"a", 0}, {"a", time.Second}, {"a", correctionMemory - 1}}, 2},
		{"one object, after a long time", []correction{{"a", 0}, {"a", correctionMemory}}, 0},
		{"two objects in turn", []correction{{"a", 0}, {"b", 0}, {"a", time.Minute}, {"b", time.Minute}}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			drift := NewMetrics(reg).Drift("apps")
			var corrections Corrections[string]
			now := time.Unix(0, 0)

			for _, c := range test.corrections {
				now = now.Add(c.after)
				corrections.Corrected(drift, "ns", c.object, 0, now)
			}

			repeated := ""
			if test.repeated > 0 {
				repeated = fmt.Sprintf("controller_drift_repeated_total{controller=\"apps\",resource_namespace=\"ns\"} %d\n", test.repeated)
			}
			exposed(t, reg, []string{"controller_drift"}, fmt.Sprintf(`
controller_drift_corrected_total{controller="apps"} %d
controller_drift_detected_total{controller="apps"} 0
`, len(test.corrections))+repeated)
		})
	}
}

func TestCorrectionsAreForgotten(t *testing.T) {
	var corrections Corrections[int]
	now := time.Unix(0, 0)
	for object := range 1000 {
		corrections.Corrected(DriftCount{}, "ns", object, 0, now)
	}

	corrections.Corrected(DriftCount{}, "ns", 1000, 0, now.Add(2*correctionMemory))

	if got := corrections.objects.Len(); got != 1 {
		t.Errorf("%d objects are remembered, want 1", got)
	}
}

// TestNamespacesOfRepeatedDriftAreBounded: tenants choose how many namespaces have repeated drift.
func TestNamespacesOfRepeatedDriftAreBounded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	metrics := NewMetrics(reg)
	drift, now := metrics.Drift("apps"), time.Unix(0, 0)
	for i := range 1000 {
		drift.repeat(fmt.Sprintf("ns-%03d", i), now)
	}
	metrics.Drift("others").repeat("ns", now) // Each controller has namespaces of its own.
	if got := testutil.CollectAndCount(metrics.repeated.vec); got != maxNamespaces+1 {
		t.Errorf("%d series, want %d", got, maxNamespaces+1)
	}

	drift.repeat("ns-007", now.Add(time.Minute))
	drift.repeat("late", now.Add(correctionMemory+time.Second))

	exposed(t, reg, []string{"controller_drift_repeated_total"}, `
controller_drift_repeated_total{controller="apps",resource_namespace="late"} 1
controller_drift_repeated_total{controller="apps",resource_namespace="ns-007"} 2
controller_drift_repeated_total{controller="others",resource_namespace="ns"} 1
`)
}

// fight corrects an object as soon as it may be, against the writers in turn, and returns when.
func fight(c *Corrections[string], d time.Duration, writers ...uint64) (at []time.Duration) {
	start := time.Unix(0, 0)
	for now := time.Duration(0); now < d; now += 100 * time.Millisecond {
		writer := writers[len(at)%len(writers)]
		if contest := c.Against("a", writer, start.Add(now)); contest.Wait > 0 {
			continue
		}
		c.Corrected(DriftCount{}, "ns", "a", writer, start.Add(now))
		at = append(at, now)
	}
	return at
}

func TestCorrectionsOfContestPause(t *testing.T) {
	// Of the first minute: five at once, and after 1, 2, 4, 8, 16 and 32 seconds. Then one in 5 minutes.
	tests := map[string]struct {
		d       time.Duration
		writers []uint64
		want    int
	}{
		"a minute against one client":       {time.Minute, []uint64{1}, 10},
		"an hour against one client":        {time.Hour, []uint64{1}, 24},
		"an hour against an unknown client": {time.Hour, []uint64{0}, 24},
		"a minute against two clients":      {time.Minute, []uint64{1, 2}, 20},
		"an hour against ever new names":    {time.Hour, newNames(1000), 28},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var c Corrections[string]
			at := fight(&c, test.d, test.writers...)
			if len(at) > test.want || len(at) < test.want/2 {
				t.Errorf("%d corrections, want at most %d: %v", len(at), test.want, at)
			}
		})
	}
}

func newNames(n int) (writers []uint64) {
	for i := range n {
		writers = append(writers, uint64(i))
	}
	return writers
}

func TestPauseOfCorrections(t *testing.T) {
	tests := map[int]time.Duration{
		0: 0, 1: 0, freeCorrections - 1: 0, freeCorrections: firstPause, freeCorrections + 1: 2 * firstPause,
		freeCorrections + 5: 32 * firstPause, freeCorrections + 9: MaxPause, 1_000_000: MaxPause,
	}
	for count, want := range tests {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			if got := (series{count: count}).pause(); got != want {
				t.Errorf("pause %v, want %v", got, want)
			}
		})
	}
}

func TestContest(t *testing.T) {
	var c Corrections[string]
	start := time.Unix(0, 0)
	for range freeCorrections {
		if c.Against("a", 1, start).Begun {
			t.Error("a contest has begun after fewer corrections")
		}
		c.Corrected(DriftCount{}, "ns", "a", 1, start)
	}

	if contest := c.Against("a", 1, start); !contest.Begun || contest.Wait != firstPause {
		t.Errorf("the contest is %+v", contest)
	}
	for what, contest := range map[string]Contest{"another client": c.Against("a", 2, start), "another object": c.Against("b", 1, start)} {
		if contest.Begun || contest.Wait > 0 {
			t.Errorf("%s: a correction waits: %+v", what, contest)
		}
	}
	c.Describe("a", 1, "one fights", start)
	if texts, ends := c.Contests("a", start); len(texts) != 1 || texts[0] != "one fights" || ends != minQuiet {
		t.Errorf("contests %q end in %v", texts, ends)
	}
	if texts, _ := c.Contests("a", start.Add(minQuiet)); len(texts) != 0 {
		t.Errorf("contests %q after a quiet minute", texts)
	}
	if contest := c.Against("a", 1, start.Add(minQuiet)); contest.Begun {
		t.Errorf("a contest has begun after a quiet minute")
	}
}

func TestResumedContestPauses(t *testing.T) {
	var c Corrections[string]
	start := time.Unix(0, 0)
	c.Resume("a", 1, start)
	c.Resume("a", 1, start.Add(firstPause)) // It is known already.

	if contest := c.Against("a", 1, start); !contest.Begun || contest.Wait != firstPause {
		t.Errorf("the contest is %+v", contest)
	}
	if contest := c.Against("a", 1, start.Add(firstPause)); contest.Wait > 0 {
		t.Errorf("the correction waits %v longer", contest.Wait)
	}
}

func TestContestText(t *testing.T) {
	const pauses = " after each correction, so corrections wait up to 5 minutes; leave it"
	tests := map[string]struct {
		fields, managers []string
		want             string
	}{
		"changed":   {[]string{"/data/a"}, []string{"injector"}, `ConfigMap "web": field manager "injector" changes /data/a again` + pauses},
		"many":      {[]string{"/a", "/b", "/c", "/d", "/e"}, []string{"x"}, `ConfigMap "web": field manager "x" changes /a, /b, /c and 2 more again` + pauses},
		"two":       {[]string{"/a"}, []string{"x", "y"}, `ConfigMap "web": field manager "x", "y" changes /a again` + pauses},
		"unknown":   {[]string{"/a"}, nil, `ConfigMap "web": another client changes /a again` + pauses},
		"ownership": {nil, []string{"x"}, `ConfigMap "web": field manager "x" changes it again` + pauses},
		"deleted":   {nil, nil, `ConfigMap "web": another client deletes it again` + pauses},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ContestText("ConfigMap", "web", test.fields, test.managers, "leave it"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
