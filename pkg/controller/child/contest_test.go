// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/expect"
)

// driftRepeatedly simulates a client that writes the ConfigMap at an interval.
func (f *family) driftRepeatedly(times int, interval time.Duration) {
	f.t.Helper()
	maps := f.kube.CoreV1().ConfigMaps("ns")
	for i := range times {
		f.Act(func() error {
			found, err := maps.Get(f.t.Context(), "web", metav1.GetOptions{})
			expect.NoError(f.t, err)
			found.Data["key"] = fmt.Sprint("theirs ", i)
			_, err = maps.Update(f.t.Context(), found, others)
			return err
		})
		f.Wait(interval)
	}
}

func TestRepeatedDriftIsCorrectedAtGrowingIntervals(t *testing.T) {
	const contested = `ConfigMap "web": field manager "others" changes /data/key again after each correction, so corrections ` +
		"wait up to 5 minutes; change the fields in the spec of its owner, or stop that client"
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"), deployment("nginx:1"))

		f.driftRepeatedly(120, 400*time.Millisecond)

		// One GET and one dry run find out who changes which field.
		if requests := f.Take(); len(requests) < 5 || len(requests) > 13 {
			t.Errorf("%d requests in the first minute, want 5 to 13: %q", len(requests), requests)
		}
		expect.Equal(t, "contested", []string{contested}, f.state.Contested)
		expect.NoError(t, f.err)

		f.driftRepeatedly(40, 10*time.Second)
		f.Take()
		f.driftRepeatedly(120, 10*time.Second)

		if requests := f.Take(); len(requests) < 3 || len(requests) > 5 {
			t.Errorf("%d requests in 20 minutes later on, want 3 to 5", len(requests))
		}

		f.Wait(16 * time.Minute)
		f.forget()
		f.driftRepeatedly(1, 0)

		expect.Equal(t, "requests after the other client paused", []string{"patch configmaps/web"}, f.Take())
		expect.Equal(t, "data", map[string]string{"key": "one"}, f.configMap().Data)
		expect.Equal(t, "contested after the other client paused", []string(nil), f.state.Contested)
	})
}

func TestRepeatedDriftEndsWithoutEvent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		f.driftRepeatedly(10, 0)
		during := len(f.state.Contested)

		f.Wait(2 * time.Minute)

		expect.Equal(t, "contested children during the contest", 1, during)
		expect.Equal(t, "contested children afterwards", 0, len(f.state.Contested))
		expect.Equal(t, "data", map[string]string{"key": "one"}, f.configMap().Data)
		expect.Equal(t, "retry", time.Duration(0), f.state.RetryAfter)
		// Five changes are restored at once. Changes during the pause count as one.
		f.drifted(6, 6)
	})
}

func TestRepeatedDriftDoesNotDelayDesiredChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		f.driftRepeatedly(20, 400*time.Millisecond)
		f.forget()

		f.desired = []Desired{configMap("two")}
		f.pass()

		expect.Equal(t, "requests", []string{"patch configmaps/web"}, f.Take())
		expect.Equal(t, "data", map[string]string{"key": "two"}, f.configMap().Data)
	})
}

func TestRepeatedDeletionIsCorrectedAtGrowingIntervals(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))

		for range 120 {
			f.remove()
			f.Wait(400 * time.Millisecond)
		}

		if requests := f.Take(); len(requests) < 5 || len(requests) > 12 {
			t.Errorf("%d requests in a minute, want 5 to 12: %q", len(requests), requests)
		}
	})
}

// TestUncorrectableDriftCountsOnce: retries do not count the same drift again.
func TestUncorrectableDriftCountsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		f.Refuse(func(request string) error { return errors.New(request + " is refused") })

		f.driftRepeatedly(1, time.Minute)
		f.drifted(1, 0)

		f.Refuse(nil)
		f.Wait(10 * time.Minute)
		f.drifted(1, 1)
	})
}

func TestDriftOfDeletedOwnerExpires(t *testing.T) {
	var d drifts
	now := time.Now()
	for i := range 3 {
		d.observe(childKey{"ns", id{"ConfigMap", fmt.Sprint(i)}}, true, now)
	}

	d.observe(childKey{"ns", id{"ConfigMap", "other"}}, true, now.Add(2*driftMemory))

	expect.Equal(t, "children whose drift is remembered", 1, d.seen.Len())
}
