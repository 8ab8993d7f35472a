// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/example/demoapp-controller/pkg/helm"
)

var errFault = errors.New("connection reset by a fault of the test")

// saboteur ends a client in the middle of its work, or its watches. Package helm tests all other
// faults.
type saboteur struct {
	mu sync.Mutex
	// countdown is the number of requests up to the first failing request; it is inactive at 0 and
	// below.
	countdown int
	// killed says that no request succeeds anymore.
	killed bool
	// watches are the bodies of open watches.
	watches []io.Closer
}

// get makes the saboteur intercept an engine's requests.
func (s *saboteur) get(config *helm.Config) { config.RESTConfig.Wrap(s.wrap) }

func (s *saboteur) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(sent *http.Request) (*http.Response, error) {
		if s.strikes(sent) {
			return nil, errFault
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

// strikes reports whether the request fails.
func (s *saboteur) strikes(sent *http.Request) bool {
	if sent.Method == http.MethodGet && targetOf(sent.URL.Path).name == "" {
		return false // Lists, watches and discovery are not affected.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countdown--
	s.killed = s.killed || s.countdown == 0
	return s.killed
}

// arm kills the client at its kth request from now on, or never if k is 0.
func (s *saboteur) arm(k int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countdown, s.killed = k, false
}

// disarm lets requests succeed again. It reports whether one has failed.
func (s *saboteur) disarm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	killed := s.killed
	s.countdown, s.killed = 0, false
	return killed
}
