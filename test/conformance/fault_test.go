// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/example/demoapp-controller/pkg/helm"
)

// fault is a failure of a request.
type fault struct {
	name string
	// kills says that no later write succeeds: the process has died.
	kills bool
	// breaksWatches says that the request is answered, and that all watches end.
	breaksWatches bool
	// strike answers in place of the API server, or after the API server.
	strike func(sent *http.Request, next http.RoundTripper) (*http.Response, error)
}

var errFault = errors.New("connection reset by a fault of the test")

var faults = []fault{
	{name: "connection error", strike: unanswered},
	{name: "death", kills: true, strike: unanswered},
	{name: "end of all watches", breaksWatches: true},
	{name: "timeout after it took effect", strike: func(sent *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(sent)
		if err == nil {
			err = errors.Join(errFault, response.Body.Close())
		}
		return nil, err
	}},
	{name: "conflict", strike: answer(http.StatusConflict, "Conflict")},
	// With Retry-After, client-go retries by itself.
	{name: "too many requests", strike: answer(http.StatusTooManyRequests, "TooManyRequests")},
	{name: "internal error", strike: answer(http.StatusInternalServerError, "InternalError")},
}

func unanswered(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errFault }

// answer returns an answer that the API server did not give.
func answer(code int, reason string) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return func(sent *http.Request, _ http.RoundTripper) (*http.Response, error) {
		body := fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": "a fault of the test"}`, reason, code)
		if sent.Body != nil {
			if err := sent.Body.Close(); err != nil {
				return nil, err
			}
		}
		return &http.Response{
			Status: strconv.Itoa(code) + " " + reason, StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: sent,
		}, nil
	}
}

// saboteur lets one write request fail.
type saboteur struct {
	mu sync.Mutex
	// countdown is the number of writes before the fault; it is inactive at 0 and below.
	countdown int
	fault     fault
	writes    int
	struck    string
	// watches are the bodies of open watches.
	watches []io.Closer
}

// attach makes the saboteur intercept an engine's requests.
func (s *saboteur) get(config *helm.Config) { config.RESTConfig.Wrap(s.wrap) }

func (s *saboteur) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(sent *http.Request) (*http.Response, error) {
		if fault, ok := s.strikes(sent); ok {
			if fault.breaksWatches {
				return s.breakWatches(sent, next)
			}
			return fault.strike(sent, next)
		}
		response, err := next.RoundTrip(sent)
		if err == nil && sent.URL.Query().Has("watch") {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.watches = append(s.watches, response.Body)
		}
		return response, err
	})
}

// breakWatches ends all watches just before the request is answered.
func (s *saboteur) breakWatches(sent *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(sent)
	return response, errors.Join(err, s.endWatches())
}

// endWatches ends all watches.
func (s *saboteur) endWatches() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, 0, len(s.watches))
	for _, watch := range s.watches {
		errs = append(errs, watch.Close())
	}
	s.watches = nil
	return errors.Join(errs...)
}

// strikes reports whether the request fails, and with which fault.
func (s *saboteur) strikes(sent *http.Request) (fault, bool) {
	if sent.Method == http.MethodGet && targetOf(sent.URL.Path).name == "" {
		return fault{}, false // Lists, watches and discovery are not affected.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	s.countdown--
	if s.countdown == 0 {
		about := targetOf(sent.URL.Path)
		s.struck = sent.Method + " " + about.Resource + "/" + about.name
	}
	return s.fault, s.countdown == 0 || s.struck != "" && s.fault.kills
}

// arm makes the kth write from now on fail.
func (s *saboteur) arm(k int, fault fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countdown, s.fault, s.writes, s.struck = k, fault, 0, ""
}

// disarm stops the faults. It returns the number of writes, and which one failed.
func (s *saboteur) disarm() (writes int, struck string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes, struck = s.writes, s.struck
	s.countdown, s.fault, s.struck = 0, fault{}, ""
	return writes, struck
}

// operation is what a fault interrupts.
type operation struct {
	name string
	// before are the release's earlier states.
	before []values
	// desired is the final state; nil for an uninstall.
	desired values
	// rolledBack says that the newest earlier state is given up for the first one.
	rolledBack bool
}

var operations = []operation{
	{name: "install", desired: values{"message": "one"}},
	{name: "upgrade", before: []values{{"message": "one"}}, desired: values{"message": "two", "second": true, "first": false}},
	{name: "rollback", before: []values{{"message": "one"}, {"message": "two", "second": true, "first": false}}, rolledBack: true},
	{name: "uninstall", before: []values{{"message": "one"}}},
}

// TestFaults lets each write request of each operation fail in each way. The engine then reaches the same state as
// without the fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, operation := range operations {
		t.Run(operation.name, func(t *testing.T) {
			t.Parallel()
			want, writes := newStricken(t).play(t, operation, 0, fault{})
			for _, fault := range faults {
				t.Run(fault.name, func(t *testing.T) {
					t.Parallel()
					s := newStricken(t)
					for k := 1; k <= writes; k++ {
						t.Run(fmt.Sprintf("at write %d", k), func(t *testing.T) {
							got, _ := s.play(t, operation, k, fault)
							if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
								t.Errorf("another end than without the fault (-without +with):\n%s", diff)
							}
						})
					}
				})
			}
		})
	}
}

// stricken is an engine with failing requests.
type stricken struct {
	*engine

	saboteur saboteur
}

func newStricken(t *testing.T) *stricken {
	t.Helper()
	s := &stricken{}
	s.engine = newEngine(t, newNamespace(t), everywhere, s.saboteur.get)
	return s
}

// play runs the operation in a namespace of its own, with a fault at its kth write, and continues until the desired
// state is reached. It returns the resulting world, and the number of writes without a fault.
func (s *stricken) play(t *testing.T, o operation, k int, fault fault) (world, int) {
	t.Helper()
	s.move(t, newNamespace(t))
	chart := readChart(t, "faults")
	for _, before := range o.before {
		if err := s.converge(t.Context(), s.desired(chart, before)); err != nil {
			t.Fatal(err)
		}
	}
	s.saboteur.arm(k, fault)
	reach := func() error {
		switch {
		case o.rolledBack:
			return s.giveUp(t.Context(), s.desired(chart, o.before[len(o.before)-1]))
		case o.desired == nil:
			return s.removeAll()
		default:
			return s.converge(t.Context(), s.desired(chart, o.desired))
		}
	}
	err := reach()
	writes, struck := s.saboteur.disarm()
	if fault.kills {
		// Another process continues with the baseline of the last success.
		s.restart()
		err = reach()
	}
	if err != nil {
		t.Errorf("after a fault at %s: %v", struck, err)
	}
	if k > 0 && struck == "" {
		t.Errorf("there was no write %d", k)
	}
	w := look(t.Context(), t, s.engine, nil)
	w.Hooks, w.Created, w.Deleted = nil, nil, nil
	allRevisions.forget(&w)
	return w, writes
}

// giveUp rolls back to the first revision, repeatedly if necessary, and asserts that the release stays there.
func (e *engine) giveUp(ctx context.Context, desired helm.Release) error {
	var errs []error
	for range maxPasses {
		if err := e.converge(ctx, desired); err != nil {
			return err
		}
		if e.last.RolledBack {
			return nil
		}
		errs = append(errs, e.rollback(ctx, 1))
	}
	return errors.Join(errs...)
}

// removeAll uninstalls until the uninstall succeeds.
func (e *engine) removeAll() error {
	var errs []error
	for range maxPasses {
		err := e.uninstall(e.t.Context())
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
