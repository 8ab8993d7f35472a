// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package shardcache

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// namespaceField is the field of an object whose hash selects it.
const namespaceField = "object.metadata.namespace"

// slowAdd is the time after which Add logs which informers lack the shard.
const slowAdd = 10 * time.Second

// Of returns the shard of a namespace, of count shards.
func Of(namespace string, count int) int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(namespace))                // It never fails.
	shard, _ := bits.Mul64(hash.Sum64(), uint64(count)) //nolint:gosec // The count is positive.
	return int(shard)                                   //nolint:gosec // It is less than count.
}

// Selection is the shards whose objects the informers of a process cache. A nil *Selection selects
// all objects. It is safe for concurrent use.
type Selection struct {
	count int

	mu sync.Mutex
	// shards are the selected shards. The set is replaced, never changed.
	shards sets.Set[int]
	// cached has the running informers, and the selected shards whose objects their stores have. The
	// sets are replaced, never changed.
	cached map[*source]sets.Set[int]
	// changed is closed and replaced when shards or cached change.
	changed chan struct{}
	// logged is true when the log says who drops the objects of other shards.
	logged bool
}

// NewSelection returns a selection of none of count shards.
func NewSelection(count int) *Selection {
	return &Selection{count: count, shards: sets.New[int](), cached: map[*source]sets.Set[int]{}, changed: make(chan struct{})}
}

// Add selects a shard. It returns when the stores of all running informers have the objects of the
// shard, and the cause of ctx if ctx ends before. An informer that starts later has them from its
// first list.
func (s *Selection) Add(ctx context.Context, shard int) error {
	if s == nil {
		return nil
	}
	s.update(func() { s.shards = s.shards.Clone().Insert(shard) })
	slow := time.NewTimer(slowAdd)
	defer slow.Stop()
	for {
		missing, changed := s.lacking(shard)
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-slow.C:
			klog.FromContext(ctx).Error(nil, "A shard waits for its caches; check that the operator may list and watch them",
				"shard", shard, "caches", missing)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Remove ends the selection of a shard. The informers then report its objects as deleted.
func (s *Selection) Remove(shard int) {
	if s != nil {
		s.update(func() { s.shards = s.shards.Clone().Delete(shard) })
	}
}

// update changes the selection, or what is cached.
func (s *Selection) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.notify()
}

// notify wakes those who wait for a change. The caller holds mu.
func (s *Selection) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// lacking returns the names of the running informers that lack a shard, sorted. changed is closed
// when the answer may have changed.
func (s *Selection) lacking(shard int) (names []string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for source, cached := range s.cached {
		if !cached.Has(shard) {
			names = append(names, source.name)
		}
	}
	slices.Sort(names)
	return names, s.changed
}

// begin adds an informer whose store has nothing yet, unless it is there or ctx has ended.
func (s *Selection) begin(ctx context.Context, informer *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, runs := s.cached[informer]; !runs && ctx.Err() == nil {
		s.cached[informer] = sets.New[int]()
	}
}

// end removes an informer.
func (s *Selection) end(informer *source) {
	s.update(func() { delete(s.cached, informer) })
}

// next returns the selected shards, to which an informer changes now. Shards that are not selected
// do not count as cached any more. changed is closed when the selection may have changed.
func (s *Selection) next(informer *source) (shards sets.Set[int], changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cached, runs := s.cached[informer]; runs && !s.shards.IsSuperset(cached) {
		s.cached[informer] = cached.Intersection(s.shards)
	}
	return s.shards, s.changed
}

// reached records that the store of an informer has the objects of the shards.
func (s *Selection) reached(informer *source, shards sets.Set[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cached, runs := s.cached[informer]; runs && !cached.Equal(shards) {
		s.cached[informer] = shards.Intersection(s.shards)
		s.notify()
	}
}

// isSelected reports whether the object of a namespace is in one of the shards.
func (s *Selection) isSelected(namespace string, shards sets.Set[int]) bool {
	return shards.Has(Of(namespace, s.count))
}

// selectorOf returns the shards in the form of a request. The selector of no shards is a range with
// one hash value, because a request cannot name an empty range.
func (s *Selection) selectorOf(shards sets.Set[int]) string {
	if len(shards) == 0 {
		return rangeOf(hashText(0), hashText(1)).String()
	}
	var ranges []sharding.ShardRangeRequirement
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		start, end := s.startOf(shard), s.startOf(shard+1)
		if last := len(ranges) - 1; last >= 0 && ranges[last].End == start {
			ranges[last].End = end
			continue
		}
		ranges = append(ranges, rangeOf(start, end).Requirements()...)
	}
	return sharding.NewSelector(ranges...).String()
}

func rangeOf(start, end string) sharding.Selector {
	return sharding.NewSelector(sharding.ShardRangeRequirement{Key: namespaceField, Start: start, End: end})
}

// startOf returns the least hash of a shard: the least h with h * count / 2^64 >= shard. That of the
// shard after the last one is 2^64.
func (s *Selection) startOf(shard int) string {
	if shard == s.count {
		return "0x10000000000000000"
	}
	start, rest := bits.Div64(uint64(shard), 0, uint64(s.count)) //nolint:gosec // Both are positive.
	if rest > 0 {
		start++
	}
	return hashText(start)
}

func hashText(hash uint64) string { return fmt.Sprintf("0x%016x", hash) }

// logFilter logs once who drops the objects of other shards.
func (s *Selection) logFilter(ctx context.Context, server bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logged {
		return
	}
	s.logged = true
	if server {
		klog.FromContext(ctx).Info("The API server selects the objects of the shards")
		return
	}
	klog.FromContext(ctx).Info("The API server sends the objects of all shards, so this replica drops those of others",
		"featureGate", "ShardedListAndWatch")
}
