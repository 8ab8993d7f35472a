// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/cache"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		m := NewMetrics(reg)
		r := newRig(t, Options{Metrics: m})
		answers := []error{nil, errTransient, errConflict, Terminal(errTransient), nil}
		r.reconcile = func(context.Context, cache.ObjectName, Reason) (Result, error) {
			time.Sleep(3 * time.Second)
			if len(answers) == 0 {
				panic("none left")
			}
			err := answers[0]
			answers = answers[1:]
			return Result{RequeueAfter: time.Hour}, err
		}
		r.run()
		r.Enqueue(keyA, SpecChange)
		advance(2 * time.Second)
		expect(t,
			want{"active", m.active.WithLabelValues("test"), 1},
			want{"unfinished", m.unfinished.WithLabelValues("test"), 2},
			want{"longest running", m.longestRunning.WithLabelValues("test"), 2},
			want{"depth", m.depth.WithLabelValues("test"), 0},
		)
		advance(10 * time.Second)
		r.Enqueue(keyB, SpecChange) // fails, then conflicts, then fails with a terminal error
		advance(time.Minute)
		r.Enqueue(keyA, SpecChange) // succeeds
		advance(time.Minute)
		r.Enqueue(keyA, SpecChange) // panics
		advance(4 * time.Second)
		r.stop(nil)
		advance(4 * time.Second)
		r.finish()
		expect(t,
			want{"active", m.active.WithLabelValues("test"), 0},
			want{"conflict", m.total.WithLabelValues("test", resultConflict), 1},
			want{"error", m.total.WithLabelValues("test", resultError), 1},
			want{"panic", m.total.WithLabelValues("test", resultPanic), 2},
			want{"success", m.total.WithLabelValues("test", resultSuccess), 2},
			want{"terminal", m.total.WithLabelValues("test", resultTerminal), 1},
			want{"retries", m.retriesTotal.WithLabelValues("test"), 4},
		)
		for _, name := range []string{
			"controller_reconcile_duration_seconds", "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds",
		} {
			if n := testutil.CollectAndCount(reg, name); n != 1 {
				t.Errorf("%d series of %s", n, name)
			}
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
	})
}

// want is the value of one series.
type want struct {
	name   string
	series prometheus.Collector
	value  float64
}

func expect(t *testing.T, wants ...want) {
	t.Helper()
	for _, w := range wants {
		if got := testutil.ToFloat64(w.series); got != w.value {
			t.Errorf("%s is %v, want %v", w.name, got, w.value)
		}
	}
}
