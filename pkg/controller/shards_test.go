// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

func TestShardOfNamespace(t *testing.T) {
	const shards, namespaces = 12, 6000
	s, found := NewShards(shards), map[int]int{}
	for i := range namespaces {
		found[s.Of(fmt.Sprintf("team-%d", i))]++
	}
	for shard := range shards {
		if got, even := found[shard], namespaces/shards; got < even/3 || got > even*3 {
			t.Errorf("shard %d has %d of %d namespaces", shard, got, namespaces)
		}
	}
	if got := s.Of(""); got != 0 {
		t.Errorf("cluster-scoped objects are in shard %d, want 0", got)
	}
	// The hash of "a" is 0xaf63dc4c8601ec8c, at 68.5 % of the range.
	if got := s.Of("a"); got != 8 {
		t.Errorf("the namespace a is in shard %d, want 8", got)
	}
}

// TestPassesOfHeldShards: a key of a shard that the process does not hold is dropped, and a pass in
// flight keeps its shard.
func TestPassesOfHeldShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shards := NewShards(2)
		in := map[int]cache.ObjectName{}
		for i := 0; len(in) < 2; i++ {
			key := cache.NewObjectName(fmt.Sprintf("ns%d", i), "web")
			in[shards.Of(key.Namespace)] = key
		}
		var forgotten []cache.ObjectName
		r := newRig(t, Options{Shards: shards, Forget: func(key cache.ObjectName) { forgotten = append(forgotten, key) }})
		release := make(chan struct{})
		r.reconcile = func(ctx context.Context, _ cache.ObjectName, _ Reason) (Result, error) {
			select {
			case <-release:
				return Result{RequeueAfter: time.Minute}, nil
			case <-ctx.Done():
				return Result{}, context.Cause(ctx)
			}
		}
		shards.Open(t.Context(), 1)
		r.Enqueue(in[0], SpecChange)
		r.Enqueue(in[0], Deleted)
		r.Enqueue(in[1], SpecChange)
		r.run()
		synctest.Wait()
		if len(r.passes) != 1 || r.passes[0].key != in[1] {
			t.Fatalf("passes: %v", r.passes)
		}
		if len(forgotten) != 1 || forgotten[0] != in[0] {
			t.Errorf("forgotten: %v", forgotten)
		}

		drained := make(chan error, 1)
		go func() { drained <- shards.Close(t.Context(), 1) }()
		synctest.Wait()
		if held := shards.Held(); !slices.Contains(held, 1) {
			t.Error("the shard is given back during a pass")
		}
		close(release)
		if err := <-drained; err != nil || len(shards.Held()) > 0 {
			t.Errorf("Close() = %v, held: %v", err, shards.Held())
		}
		if dropped := r.Drop(func(namespace string) bool { return shards.Of(namespace) == 1 }); len(dropped) != 1 {
			t.Errorf("dropped: %v", dropped)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if len(r.passes) != 1 {
			t.Errorf("passes after the shard was given back: %v", r.passes)
		}
		r.stop(nil)
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestLostShardCancelsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errLost := errors.New("lost")
		shards := NewShards(1)
		r := newRig(t, Options{Shards: shards})
		var cause error
		r.reconcile = func(ctx context.Context, _ cache.ObjectName, _ Reason) (Result, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return Result{}, cause
		}
		lead, lose := context.WithCancelCause(t.Context())
		shards.Open(lead, 0)
		r.run()
		r.Enqueue(keyA, SpecChange)
		synctest.Wait()

		lose(errLost)
		synctest.Wait()
		r.Enqueue(keyB, SpecChange)
		synctest.Wait()

		if !errors.Is(cause, errLost) || len(r.passes) != 1 {
			t.Errorf("the pass ended with %v; passes: %v", cause, r.passes)
		}
		if err := shards.Close(t.Context(), 0); err != nil {
			t.Errorf("Close() = %v", err)
		}
		r.stop(nil)
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

// TestShareOfLimit: the shares of all processes sum up to the limit, but each process has at least
// 1.
func TestShareOfLimit(t *testing.T) {
	tests := []struct {
		name   string
		limit  int
		held   [][]int
		shares []int
	}{
		{name: "divides evenly", limit: 12, held: [][]int{{0, 1, 2}, {3, 4, 5}}, shares: []int{6, 6}},
		{name: "does not divide evenly", limit: 10, held: [][]int{{0, 1}, {2, 3}, {4, 5}}, shares: []int{3, 3, 4}},
		{name: "fewer than shards", limit: 2, held: [][]int{{0, 1}, {2, 3}, {4, 5}}, shares: []int{1, 1, 1}},
		{name: "no shard", limit: 10, held: [][]int{{}}, shares: []int{1}},
		{name: "no limit", limit: 0, held: [][]int{{0}}, shares: []int{0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var shares []int
			for _, held := range test.held {
				shards := NewShards(6)
				for _, shard := range held {
					shards.Open(t.Context(), shard)
				}
				shares = append(shares, shards.Share(test.limit))
			}
			if !slices.Equal(shares, test.shares) {
				t.Errorf("shares %v, want %v", shares, test.shares)
			}
		})
	}
	if got := (*Shards)(nil).Share(10); got != 10 {
		t.Errorf("without shards, the share of 10 is %d", got)
	}
}
