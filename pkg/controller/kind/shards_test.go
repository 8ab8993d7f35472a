// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"testing"
	"testing/synctest"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/test/expect"
)

// TestGivenShardIsForgotten: another replica may change the objects of a shard before the process
// takes it again.
func TestGivenShardIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
			w.shards = controller.NewShards(2)
		})
		stop, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.loop.Run(stop, context.WithoutCancel(stop)) }()
		synctest.Wait()
		ours := w.shards.Of(key.Namespace)
		for shard := range 2 {
			w.shards.Open(t.Context(), shard)
		}

		expect.NoError(t, w.shards.Close(t.Context(), 1-ours))
		if w.forgotten != 0 {
			t.Error("an object of another shard is forgotten")
		}
		expect.NoError(t, w.shards.Close(t.Context(), ours))
		if w.forgotten == 0 {
			t.Error("an object of the shard is not forgotten")
		}

		w.loop.Queue().Enqueue(key, controller.SpecChange)
		if dropped := w.loop.Queue().Drop(func(string) bool { return true }); len(dropped) > 0 {
			t.Errorf("an object of a shard that was given back is enqueued: %v", dropped)
		}
		cancel()
		expect.NoError(t, <-ended)
	})
}
