// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// journal records actions in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) note(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(j.entries, want) {
		t.Errorf("actions are\n%q, want\n%q", j.entries, want)
	}
}

// service returns a service that takes a second to stop, and then records its stop.
func (j *journal) service(name string) Service {
	return Service{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		elapse(time.Second)
		j.note(name + " stopped")
		return ctx.Err()
	}}
}

func TestServicesStopInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		stop, fail := context.WithCancelCause(t.Context())
		defer fail(nil)
		services := &serviceStack{fail: fail}
		services.start(t.Context(), happened.service("http"), happened.service("events"))
		services.start(t.Context(), happened.service("informers"))
		services.stopAll(t.Context())
		happened.expect(t, "informers stopped", "events stopped", "http stopped")
		if err := context.Cause(stop); err != nil {
			t.Errorf("stop was reported as a failure: %v", err)
		}
	})
}

func TestServiceStopTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		release := make(chan struct{})
		services := &serviceStack{}
		services.start(t.Context(), happened.service("http"),
			Service{Name: "stuck", Run: func(context.Context) error { <-release; return nil }})
		start := time.Now()
		services.stopAll(t.Context())
		if took, want := time.Since(start), serviceStopTimeout+time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
		happened.expect(t, "http stopped")
		close(release)
	})
}

func TestServiceFails(t *testing.T) {
	failure := errors.New("broken")
	tests := []struct {
		name string
		err  error
		want error
		text string
	}{
		{name: "error", err: failure, want: failure, text: "engine: broken"},
		{name: "early end", want: errEndedEarly, text: "engine: ended unexpectedly"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stop, fail := context.WithCancelCause(t.Context())
			defer fail(nil)
			services := &serviceStack{fail: fail}
			services.start(t.Context(), Service{Name: "engine", Run: func(context.Context) error { return test.err }})
			<-stop.Done()
			if err := context.Cause(stop); !errors.Is(err, test.want) || err.Error() != test.text {
				t.Errorf("cause = %v, want %s", err, test.text)
			}
			services.stopAll(t.Context())
		})
	}
}
