// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
)

func TestBudget(t *testing.T) {
	const all, ofAddress = 10, 6
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	tests := []struct {
		name    string
		address netip.Addr
		size    int64
		waits   bool
	}{
		{"the rest of an address", one, 1, false},
		{"more than the rest of an address", one, 2, true},
		{"another address", two, 5, false},
		{"another address with more than the rest of all", two, 6, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := newBudget(all, ofAddress)
				release, err := budget.take(t.Context(), one, 5)
				if err != nil {
					t.Fatal(err)
				}
				taken := make(chan func(), 1)
				go func() {
					release, err := budget.take(t.Context(), test.address, test.size)
					if err != nil {
						t.Error(err)
					}
					taken <- release
				}()

				synctest.Wait()

				if waits := len(taken) == 0; waits != test.waits {
					t.Errorf("waits: %t, want %t", waits, test.waits)
				}
				release()
				(<-taken)()
				if len(budget.addresses) > 0 {
					t.Errorf("%d addresses are kept", len(budget.addresses))
				}
			})
		})
	}
}

func TestWaitForBudgetEndsWithRequest(t *testing.T) {
	budget, address := newBudget(4, 2), netip.MustParseAddr("10.0.0.1")
	release, err := budget.take(t.Context(), address, 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = budget.take(ctx, address, 1)

	if err == nil {
		t.Error("more was taken than an address may")
	}
	release()
	if len(budget.addresses) > 0 || !budget.all.TryAcquire(4) {
		t.Error("not all was given back")
	}
}
