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

// fault is what happens to a request.
type fault struct {
	name string
	// kills says that no write passes any more: the process has died.
	kills bool
	// breaksWatches says that the request is answered, and all watches end.
	breaksWatches bool
	// strike answers in place of the API server, or after it.
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
	// With a word of when to come again, client-go does so by itself.
	{name: "too many requests", strike: answer(http.StatusTooManyRequests, "TooManyRequests")},
	{name: "internal error", strike: answer(http.StatusInternalServerError, "InternalError")},
}

func unanswered(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errFault }

// answer is an answer of the API server that it did not give.
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

// saboteur strikes one write request.
type saboteur struct {
	mu sync.Mutex
	// countdown is how many more writes pass; it rests at 0 and below.
	countdown int
	fault     fault
	writes    int
	struck    string
	// watches are the bodies of the watches that are open.
	watches []io.Closer
}

// get in the way of an engine's requests.
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

// strikes reports whether the request is to be struck, and by what.
func (s *saboteur) strikes(sent *http.Request) (fault, bool) {
	if sent.Method == http.MethodGet && targetOf(sent.URL.Path).name == "" {
		return fault{}, false // Lists and watches, and discovery.
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

// arm has the kth write from now on struck.
func (s *saboteur) arm(k int, fault fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countdown, s.fault, s.writes, s.struck = k, fault, 0, ""
}

// disarm lets all writes pass from now on. It returns how many there were, and which one was struck.
func (s *saboteur) disarm() (writes int, struck string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes, struck = s.writes, s.struck
	s.countdown, s.fault, s.struck = 0, fault{}, ""
	return writes, struck
}

// operation is what a fault strikes in the midst of.
type operation struct {
	name string
	// before are the release's states before it.
	before []values
	// wanted is the state after it; nil when there is to be none.
	wanted values
	// rolledBack says that the newest state before it is given up for the first one.
	rolledBack bool
}

var operations = []operation{
	{name: "install", wanted: values{"message": "one"}},
	{name: "upgrade", before: []values{{"message": "one"}}, wanted: values{"message": "two", "second": true, "first": false}},
	{name: "rollback", before: []values{{"message": "one"}, {"message": "two", "second": true, "first": false}}, rolledBack: true},
	{name: "uninstall", before: []values{{"message": "one"}}},
}

// TestFaults strikes each write request of each operation in each way. The engine then comes to the same end as without.
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

// stricken is an engine whose requests are struck.
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

// play does the operation in a namespace of its own, with a fault at its kth write, then goes on until all is as wanted. It
// returns what the world is like then, and how many writes there were without one.
func (s *stricken) play(t *testing.T, o operation, k int, fault fault) (world, int) {
	t.Helper()
	s.move(t, newNamespace(t))
	chart := readChart(t, "faults")
	for _, before := range o.before {
		if err := s.converge(t.Context(), s.wanted(chart, before)); err != nil {
			t.Fatal(err)
		}
	}
	s.saboteur.arm(k, fault)
	reach := func() error {
		switch {
		case o.rolledBack:
			return s.giveUp(t.Context(), s.wanted(chart, o.before[len(o.before)-1]))
		case o.wanted == nil:
			return s.removeAll()
		default:
			return s.converge(t.Context(), s.wanted(chart, o.wanted))
		}
	}
	err := reach()
	writes, struck := s.saboteur.disarm()
	if fault.kills {
		// Another process goes on, and knows what was saved after the last success.
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

// giveUp rolls back to the first revision, as often as it takes, and holds that this is the end of it.
func (e *engine) giveUp(ctx context.Context, wanted helm.Release) error {
	var errs []error
	for range maxPasses {
		if err := e.converge(ctx, wanted); err != nil {
			return err
		}
		if e.last.RolledBack {
			return nil
		}
		errs = append(errs, e.rollback(ctx, 1))
	}
	return errors.Join(errs...)
}

// removeAll uninstalls until that succeeds.
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
