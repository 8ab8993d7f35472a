// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestReason(t *testing.T) {
	tests := []struct {
		reason Reason
		text   string
		has    Reason
		lacks  Reason
	}{
		{0, "None", 0, Drift},
		{SpecChange, "SpecChange", SpecChange, Drift},
		{SpecChange | Drift, "SpecChange|Drift", Drift, Drift | Retry},
		{Deleted | HealthChange | Retry, "HealthChange|Retry|Deleted", Retry | Deleted, PeriodicResync},
		{DependencyReady | PeriodicResync | 1<<20, "DependencyReady|PeriodicResync|Reason(0x100000)", 1 << 20, SpecChange},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			if got := test.reason.String(); got != test.text {
				t.Errorf("String() = %q, want %q", got, test.text)
			}
			if !test.reason.Has(test.has) {
				t.Errorf("Has(%v) = false", test.has)
			}
			if test.reason.Has(test.lacks) {
				t.Errorf("Has(%v) = true", test.lacks)
			}
		})
	}
}

func TestErrorKinds(t *testing.T) {
	plain := errors.New("plain")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "apps"}, "a", plain)
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "apps"}, "a")
	tests := []struct {
		name               string
		err                error
		terminal, conflict bool
	}{
		{"nil", nil, false, false},
		{"plain", plain, false, false},
		{"terminal", Terminal(plain), true, false},
		{"terminal nil", Terminal(nil), false, false},
		{"wrapped terminal", fmt.Errorf("step: %w", Terminal(plain)), true, false},
		{"terminal and transient", errors.Join(Terminal(plain), plain), false, false},
		{"transient and terminal", errors.Join(plain, Terminal(plain)), false, false},
		{"terminal twice", errors.Join(Terminal(plain), fmt.Errorf("b: %w", Terminal(plain))), true, false},
		{"terminal over a join", Terminal(errors.Join(plain, conflict)), true, false},
		{"conflict", conflict, false, true},
		{"wrapped conflict", fmt.Errorf("write: %w", conflict), false, true},
		{"already exists is no conflict", exists, false, false},
		{"failure beside a conflict", errors.Join(plain, conflict), false, false},
		{"two conflicts", errors.Join(conflict, conflict), false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := IsTerminal(test.err); got != test.terminal {
				t.Errorf("IsTerminal = %t, want %t", got, test.terminal)
			}
			if got := isConflict(test.err); got != test.conflict {
				t.Errorf("isConflict = %t, want %t", got, test.conflict)
			}
		})
	}
	if err := Terminal(plain); !errors.Is(err, plain) || err.Error() != plain.Error() {
		t.Errorf("Terminal does not wrap its error: %v", err)
	}
}

func TestIsFailure(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("changed"))
	ended, end := context.WithCancel(t.Context())
	end()
	tests := []struct {
		name    string
		ctx     context.Context
		err     error
		failure bool
	}{
		{"none", t.Context(), nil, false},
		{"any error", t.Context(), errors.New("boom"), true},
		{"terminal", t.Context(), Terminal(errors.New("boom")), true},
		{"terminal conflict", t.Context(), Terminal(conflict), true},
		{"conflict", t.Context(), fmt.Errorf("write: %w", conflict), false},
		{"conflict beside a failure", t.Context(), errors.Join(conflict, errors.New("boom")), true},
		{"interrupted", ended, errors.New("boom"), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := IsFailure(test.ctx, test.err); got != test.failure {
				t.Errorf("got %t", got)
			}
		})
	}
}
