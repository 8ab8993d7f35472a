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

// shardSet has selected shards, with the number of the call of Add that selected each of them. A
// shard that was removed and added again has another number, so an informer that missed the removal
// lists the shard again. A shardSet is replaced, never changed.
type shardSet map[int]int

// has reports whether a shard is selected.
func (s shardSet) has(shard int) bool {
	_, selected := s[shard]
	return selected
}

// minus returns the shards that other does not have.
func (s shardSet) minus(other shardSet) shardSet {
	left := maps.Clone(s)
	maps.DeleteFunc(left, func(shard, call int) bool { return other.has(shard) && other[shard] == call })
	return left
}

// Selection is the shards whose objects the informers of a process cache. A nil *Selection selects
// all objects. It is safe for concurrent use.
type Selection struct {
	count int

	mu sync.Mutex
	// added is the number of calls of Add.
	added int
	// shards are the selected shards.
	shards shardSet
	// cached has the running informers, and the shards whose objects their stores have.
	cached map[*source]shardSet
	// changed is closed and replaced when shards or cached change.
	changed chan struct{}
	// filter is who drops the objects of other shards, as the log says. It is empty before the first
	// answer that shows it.
	filter filter
}

// filter is who drops the objects of shards that are not selected.
type filter string

const (
	byServer filter = "server"
	byClient filter = "client"
)

// NewSelection returns a selection of none of count shards.
func NewSelection(count int) *Selection {
	return &Selection{count: count, shards: shardSet{}, cached: map[*source]shardSet{}, changed: make(chan struct{})}
}

// Add selects a shard. It returns when the stores of all running informers have the objects of the
// shard, and the cause of ctx if ctx ends before. An informer that starts later has them from its
// first list.
func (s *Selection) Add(ctx context.Context, shard int) error {
	if s == nil {
		return nil
	}
	s.update(func() {
		s.added++
		s.shards = maps.Clone(s.shards)
		s.shards[shard] = s.added
	})
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
		s.update(func() {
			s.shards = maps.Clone(s.shards)
			delete(s.shards, shard)
		})
	}
}

// update changes the selection or the cached shards.
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
	call := s.shards[shard]
	for source, cached := range s.cached {
		if cached[shard] != call {
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
		s.cached[informer] = shardSet{}
	}
}

// end removes an informer.
func (s *Selection) end(informer *source) {
	s.update(func() { delete(s.cached, informer) })
}

// next returns the selected shards. changed is closed when the selection may have changed.
func (s *Selection) next() (shards shardSet, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards, s.changed
}

// reached records that the store of an informer has the objects of the shards.
func (s *Selection) reached(informer *source, shards shardSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cached, runs := s.cached[informer]; runs && !maps.Equal(cached, shards) {
		s.cached[informer] = shards
		s.notify()
	}
}

// isSelected reports whether the object of a namespace is in one of the shards.
func (s *Selection) isSelected(namespace string, shards shardSet) bool {
	return shards.has(Of(namespace, s.count))
}

// selectorOf returns the shards in the form of a request. The selector of no shards is a range with
// one hash value, because a request cannot name an empty range.
func (s *Selection) selectorOf(shards shardSet) string {
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

// startOf returns the least hash of a shard: the least h with h * count / 2^64 >= shard. For the
// shard after the last one, it is 2^64.
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

// logFilter logs who drops the objects of other shards, when that has changed: API servers may have
// the feature gate or not, and may change it.
func (s *Selection) logFilter(ctx context.Context, by filter) {
	s.mu.Lock()
	changed := s.filter != by
	s.filter = by
	s.mu.Unlock()
	switch {
	case !changed:
	case by == byServer:
		klog.FromContext(ctx).Info("The API server selects the objects of the shards")
	default:
		klog.FromContext(ctx).Info("The API server sends the objects of all shards, so this replica drops those of others",
			"featureGate", "ShardedListAndWatch")
	}
}
