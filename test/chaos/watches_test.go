// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/example/demoapp-controller/test/cluster"
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
			fault := watchFaults[name]
			fault.met = &sync.Map{}
			sabotage.breakWatches(&fault)
			reconnect(t)
			t.Cleanup(func() {
				sabotage.breakWatches(nil)
				reconnect(t)
			})
			t.Run("subjects", func(t *testing.T) { playAllDisturbed(t) })
			assertMet(t, fault)
		})
	}
}

// assertMet asserts that a fault has met each of its resources that occurs in the runs.
func assertMet(t *testing.T, fault watchFault) {
	t.Helper()
	occurring := sets.New[string]()
	for name := range subjects {
		came, _ := undisturbed[name](t)
		for _, state := range came.states {
			for object := range state {
				occurring.Insert(path.Dir(object))
			}
		}
	}
	desired := sets.New(fault.resources...).Intersection(occurring)
	// The API server sends a watch its first bookmark after a minute.
	cluster.Eventually(t.Context(), t, fault.effect(), func(context.Context) (bool, error) {
		met := fault.resourcesMet()
		if missed := desired.Difference(met); len(met) == 0 || len(missed) > 0 {
			return false, fmt.Errorf("of %q, but not of %q", sets.List(met), sets.List(missed))
		}
		return true, nil
	})
}

// reconnect interrupts all watches, so that the operator begins new ones.
func reconnect(t *testing.T) {
	t.Helper()
	proxy.Disconnect()
	proxy.Connect(t.Context())
}
