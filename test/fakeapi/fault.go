// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

// Fault is how a request fails.
type Fault int

// The faults.
const (
	// NoFault serves the request.
	NoFault Fault = iota
	// FailBefore answers 500, without an effect.
	FailBefore
	// FailAfter answers 500 after the request took effect.
	FailAfter
	// LoseAnswer drops the answer after the request took effect.
	LoseAnswer
	// AnswerConflict answers 409, without an effect.
	AnswerConflict
	// AnswerForbidden answers 403, without an effect.
	AnswerForbidden
	// AnswerThrottled answers 429, without an effect.
	AnswerThrottled
	// EndWatches ends all watches, and serves the request.
	EndWatches
)

// FailNth makes the n-th request from now fail, counted from 1. The returned function
// returns the number of requests so far.
func (s *Server) FailNth(n int, fault Fault) (seen func() int) {
	return s.fail(func(count int) Fault {
		if count == n {
			return fault
		}
		return NoFault
	})
}

// FailFrom makes the n-th request from now fail with the fault, and all later ones without
// an effect. The returned function returns the number of requests so far.
func (s *Server) FailFrom(n int, fault Fault) (seen func() int) {
	return s.fail(func(count int) Fault {
		switch {
		case count == n:
			return fault
		case count > n:
			return FailBefore
		default:
			return NoFault
		}
	})
}

// fail makes requests fail by their number.
func (s *Server) fail(how func(count int) Fault) (seen func() int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	s.Fault = func(Request) Fault {
		count++
		return how(count)
	}
	return func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return count
	}
}
