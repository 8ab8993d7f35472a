// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

func TestInBatches(t *testing.T) {
	errRefused := errors.New("refused")
	tests := []struct {
		name          string
		count         int
		fails         func(i int) bool
		calls, atOnce int
	}{
		{"none", 0, nil, 0, 0},
		{"all", 20, nil, 20, 4},
		{"one that fails", 20, func(i int) bool { return i == 5 }, 20, 4},
		{"all fail", 20, func(int) bool { return true }, 3, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			calls, now, most := 0, 0, 0
			err := inBatches(t.Context(), test.count, 4, func(_ context.Context, i int) error {
				mu.Lock()
				calls, now = calls+1, now+1
				most = max(most, now)
				mu.Unlock()
				defer func() {
					mu.Lock()
					now--
					mu.Unlock()
				}()
				if test.fails != nil && test.fails(i) {
					return errRefused
				}
				return nil
			})
			expect.Equal(t, "calls", test.calls, calls)
			if most > test.atOnce {
				t.Errorf("%d calls at once", most)
			}
			if errors.Is(err, errRefused) != (test.fails != nil) {
				t.Errorf("error is %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := inBatches(ctx, 1, 1, func(context.Context, int) error { t.Error("called after the end"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}
