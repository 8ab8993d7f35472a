// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// elapse moves the fake clock of a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }

// worker returns a controller that drains for a time after the end of stop. If obeys is true, it
// returns at the end of lead.
func worker(name string, drain time.Duration, obeys bool) Controller {
	return Controller{Name: name, Run: func(stop, lead context.Context) error {
		dropped := lead.Done()
		if !obeys {
			dropped = nil
		}
		select {
		case <-stop.Done():
		case <-dropped:
			return context.Cause(lead)
		}
		select {
		case <-time.After(drain):
			return nil
		case <-dropped:
			return context.Cause(lead)
		}
	}}
}

func failing(name string, after time.Duration, err error) Controller {
	return Controller{Name: name, Run: func(stop, _ context.Context) error {
		select {
		case <-time.After(after):
			return err
		case <-stop.Done():
			return nil
		}
	}}
}

func TestSupervise(t *testing.T) {
	var (
		failure = errors.New("cache not synced")
		errLost = errors.New("lease gone")
		// errTaken is errLost with another leader.
		errTaken = fmt.Errorf("%w: another leads", errLeaseTaken)
		never    = 24 * time.Hour
		// grace is the time between the loss of the lease and its end.
		grace = 3 * time.Second
	)
	tests := []struct {
		name        string
		controllers []Controller
		stopAfter   time.Duration
		loseAfter   time.Duration
		// taken is true if another process holds the lease.
		taken bool
		want  []error
		text  string
		took  time.Duration
	}{
		{name: "no controllers", stopAfter: time.Minute, loseAfter: never, took: time.Minute},
		{
			name:        "waits for the slowest controller",
			controllers: []Controller{worker("a", 10*time.Second, true), worker("b", 20*time.Second, true)},
			stopAfter:   time.Minute, loseAfter: never,
			took: time.Minute + 20*time.Second,
		},
		{
			name:        "shutdown timeout, workers return",
			controllers: []Controller{worker("a", time.Hour, true)},
			stopAfter:   time.Minute, loseAfter: never,
			want: []error{errShutdownTimeout},
			text: "work in flight was not finished after 25s (--shutdown-timeout)",
			took: time.Minute + 25*time.Second,
		},
		{
			name:        "shutdown timeout, workers keep running",
			controllers: []Controller{worker("a", time.Hour, false)},
			stopAfter:   time.Minute, loseAfter: never,
			want: []error{errShutdownTimeout, errWorkersLeft},
			took: time.Minute + 27*time.Second,
		},
		{
			name:        "lease lost, workers return",
			controllers: []Controller{worker("a", time.Hour, true)},
			stopAfter:   never, loseAfter: time.Minute,
			want: []error{errLost},
			text: "lease gone",
			took: time.Minute,
		},
		{
			name:        "lease lost, workers keep running",
			controllers: []Controller{worker("a", never, false)},
			stopAfter:   never, loseAfter: time.Minute,
			want: []error{errLost, errWorkersLeft},
			took: time.Minute + 3*time.Second,
		},
		{
			name:        "lease taken, workers keep running",
			controllers: []Controller{worker("a", never, false)},
			stopAfter:   never, loseAfter: time.Minute, taken: true,
			want: []error{errTaken, errWorkersLeft},
			took: time.Minute,
		},
		{
			name:        "lease lost while draining",
			controllers: []Controller{worker("a", never, false)},
			stopAfter:   time.Minute, loseAfter: time.Minute + 20*time.Second,
			want: []error{errLost, errWorkersLeft},
			took: time.Minute + 23*time.Second,
		},
		{
			name:        "one controller fails, the others drain",
			controllers: []Controller{worker("a", 5*time.Second, true), failing("b", time.Minute, failure)},
			stopAfter:   never, loseAfter: never,
			want: []error{failure},
			text: "controller b: cache not synced",
			took: time.Minute + 5*time.Second,
		},
		{
			name:        "one controller ends early",
			controllers: []Controller{failing("a", time.Minute, nil)},
			stopAfter:   never, loseAfter: never,
			want: []error{errEndedEarly},
			text: "controller a: ended unexpectedly",
			took: time.Minute,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop, cancel := context.WithTimeout(t.Context(), test.stopAfter)
				defer cancel()
				start := time.Now()
				loss := &leaseLostError{error: errLost, end: start.Add(test.loseAfter + grace)}
				if test.taken {
					loss = &leaseLostError{error: errTaken}
				}
				lead, lose := context.WithTimeoutCause(context.WithoutCancel(t.Context()), test.loseAfter, loss)
				defer lose()
				p := &process{shutdownTimeout: 25 * time.Second}
				added := make(chan []Controller, 1)
				added <- test.controllers
				err := p.supervise(stop, lead, added)
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				checkErrors(t, err, test.want, errShutdownTimeout, errWorkersLeft, errLost, errTaken, failure, errEndedEarly)
				if test.text != "" && err.Error() != test.text {
					t.Errorf("error = %q, want %q", err, test.text)
				}
				elapse(2 * never) // the remaining workers end
			})
		})
	}
}

func TestSuperviseLaterControllers(t *testing.T) {
	failure := errors.New("broken")
	tests := []struct {
		name string
		late Controller
		want error
		took time.Duration
	}{
		{name: "supervise waits for a later controller", late: worker("late", 10*time.Second, true), took: time.Hour + 10*time.Second},
		{name: "a later controller fails, the others drain", late: failing("late", time.Second, failure), want: failure, took: time.Minute + 6*time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				p := &process{shutdownTimeout: 25 * time.Second}
				added := make(chan []Controller, 2)
				added <- []Controller{worker("first", 5*time.Second, true)}
				start := time.Now()
				time.AfterFunc(time.Minute, func() { added <- []Controller{test.late} })

				err := p.supervise(stop, t.Context(), added)

				if !errors.Is(err, test.want) {
					t.Errorf("error = %v, want %v", err, test.want)
				}
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}

// checkErrors checks that err wraps exactly the errors in want, out of all.
func checkErrors(t *testing.T, err error, want []error, all ...error) {
	t.Helper()
	if len(want) == 0 && err != nil {
		t.Errorf("error = %v, want none", err)
	}
	for _, candidate := range all {
		expected := false
		for _, w := range want {
			expected = expected || errors.Is(w, candidate)
		}
		if errors.Is(err, candidate) != expected {
			t.Errorf("error = %v wraps %q: %v, want %v", err, candidate, !expected, expected)
		}
	}
}
