// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/example/demoapp-controller/pkg/controller"
)

// newProcess returns a process whose parts note in j what they do.
func newProcess(j *journal, synced *bool, controllers ...Named) *process {
	return &process{
		endpoints:       []service{j.service("http")},
		ready:           &readiness{},
		shutdownTimeout: 25 * time.Second,
		lostLeaseGrace:  3 * time.Second,
		prepare: func(context.Context) (*assembly, campaign, error) {
			j.note("prepared")
			built := &assembly{
				services:    []service{j.service("events"), j.service("informers")},
				synced:      []controller.NamedSync{{Name: "demoapps", HasSynced: func() bool { return *synced }}},
				controllers: controllers,
			}
			return built, func(stop context.Context, work workFunc) error {
				defer j.note("lease released")
				return work(stop, context.WithoutCancel(stop))
			}, nil
		},
	}
}

func TestRunStopsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		synced := false
		stop, cancel := context.WithCancel(t.Context())
		p := newProcess(&happened, &synced, Named{Name: "demoapp", Run: func(stop, _ context.Context) error {
			<-stop.Done()
			elapse(10 * time.Second)
			happened.note("workers drained")
			return nil
		}})
		if got := p.ready.problems(); len(got) != 1 || got[0] != "starting" {
			t.Errorf("problems before the start = %q", got)
		}
		done := make(chan error)
		go func() { done <- p.run(stop) }()
		synctest.Wait()
		if got := p.ready.problems(); len(got) != 1 || got[0] != "demoapps: not synced" {
			t.Errorf("problems before the sync = %q", got)
		}
		synced = true
		if got := p.ready.problems(); len(got) != 0 {
			t.Errorf("problems after the sync = %q", got)
		}
		cancel()
		if got := p.ready.problems(); len(got) != 1 || got[0] != "stopping" {
			t.Errorf("problems after the signal = %q", got)
		}
		if err := <-done; err != nil {
			t.Errorf("run() = %v", err)
		}
		happened.expect(t, "prepared", "workers drained", "lease released",
			"informers stopped", "events stopped", "http stopped")
	})
}

func TestRunPrepare(t *testing.T) {
	failure := errors.New("no CRD")
	tests := []struct {
		name string
		stop bool // a signal arrives meanwhile
		want error
	}{
		{name: "fails", want: failure},
		{name: "is interrupted", stop: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var happened journal
				stop, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := newProcess(&happened, new(bool))
				p.prepare = func(context.Context) (*assembly, campaign, error) {
					if test.stop {
						cancel()
					}
					return nil, nil, failure
				}
				if err := p.run(stop); !errors.Is(err, test.want) {
					t.Errorf("run() = %v, want %v", err, test.want)
				}
				happened.expect(t, "http stopped")
			})
		})
	}
}

func TestRunServiceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		failure := errors.New("broken")
		p := newProcess(&happened, new(bool), worker("demoapp", time.Second, true))
		p.endpoints = append(p.endpoints, service{name: "metrics", run: func(context.Context) error {
			elapse(time.Minute)
			return failure
		}})
		if err := p.run(t.Context()); !errors.Is(err, failure) {
			t.Errorf("run() = %v, want %v", err, failure)
		}
		happened.expect(t, "prepared", "lease released", "informers stopped", "events stopped", "http stopped")
	})
}

func TestRunExitsAtOnceWhenWorkersAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		exited := make(chan struct{}) // the end of the process ends what is left; here the test does
		stop, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p := newProcess(&happened, new(bool), Named{Name: "stuck", Run: func(context.Context, context.Context) error {
			<-exited
			return nil
		}})
		p.endpoints = []service{{name: "http", run: func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				happened.note("http stopped")
			case <-exited:
			}
			return nil
		}}}
		prepare := p.prepare
		p.prepare = func(ctx context.Context) (*assembly, campaign, error) {
			built, campaign, err := prepare(ctx)
			built.services = nil
			return built, campaign, err
		}
		start := time.Now()
		if err := p.run(stop); !errors.Is(err, errWorkersLeft) {
			t.Errorf("run() = %v, want %v", err, errWorkersLeft)
		}
		if took, want := time.Since(start), time.Minute+p.shutdownTimeout+abandonGrace; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
		happened.expect(t, "prepared", "lease released")
		close(exited)
	})
}
