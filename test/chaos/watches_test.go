// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// shortWatchFaults is the number of ways in which a short test breaks watches.
const shortWatchFaults = 1

// TestWatchesFail plays all subjects while all watches of the operator are broken, in one way after
// the other. A short test breaks them in some ways, which the seed selects.
func TestWatchesFail(t *testing.T) {
	names := slices.Sorted(maps.Keys(watchFaults))
	if testing.Short() {
		random := rand.New(rand.NewPCG(uint64(*seed), 0))
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:shortWatchFaults]
	}
	playAllUndisturbed(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			sabotage.breakWatches(new(watchFaults[name]))
			reconnect(t)
			t.Cleanup(func() {
				sabotage.breakWatches(nil)
				reconnect(t)
			})
			playAllDisturbed(t)
			if watchFaults[name].pages {
				t.Cleanup(func() {
					if sabotage.expiredPages.Load() == 0 {
						t.Error("no list expired between its pages")
					}
				})
			}
		})
	}
}

// reconnect interrupts all watches, so that the operator begins new ones.
func reconnect(t *testing.T) {
	t.Helper()
	proxy.Disconnect()
	proxy.Connect(t.Context())
}
