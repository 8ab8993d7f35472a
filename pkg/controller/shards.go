// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/example/demoapp-controller/pkg/shardcache"
)

// Shards are the shares of the namespaces that several replicas divide among themselves. A shard is
// a range of the 64-bit FNV-1a hash of the namespace. An object, its release records and its
// children lie in one namespace, so a pass never crosses shards. Cluster-scoped objects belong to
// shard 0.
//
// A process holds a shard between [Shards.Open] and the end of [Shards.Close]. A [Controller] makes
// passes only over objects of shards that the process holds, and drops all other keys. A nil
// *Shards holds everything.
type Shards struct {
	count     int
	selection *shardcache.Selection

	mu       sync.Mutex
	held     map[int]*heldShard
	watchers []*shardWatcher
	opened   int
}

// InShard reports whether a namespace belongs to a shard.
type InShard func(namespace string) bool

// heldShard is a shard that the process holds.
type heldShard struct {
	// lead ends when the process must not work on the shard any more.
	lead context.Context
	// running is the number of passes in flight.
	running int
	// idle is closed when no pass is in flight and none can start. It is nil until Close.
	idle chan struct{}
}

type shardWatcher struct{ opened, closed func(InShard) }

// NewShards returns count shards. The process holds none.
func NewShards(count int) *Shards {
	return &Shards{count: count, selection: shardcache.NewSelection(count), held: map[int]*heldShard{}}
}

// Selection returns the shards whose objects the informers of the process cache; nil for all. A
// process selects a shard before Open and until after Close.
func (s *Shards) Selection() *shardcache.Selection {
	if s == nil {
		return nil
	}
	return s.selection
}

// Of returns the shard of a namespace. The empty namespace stands for cluster-scoped objects.
func (s *Shards) Of(namespace string) int {
	if namespace == "" {
		return 0
	}
	return shardcache.Of(namespace, s.count)
}

// Open begins the work on a shard. Passes are canceled when lead ends.
func (s *Shards) Open(lead context.Context, shard int) {
	s.mu.Lock()
	s.held[shard] = &heldShard{lead: lead}
	s.opened++
	watchers := slices.Clone(s.watchers)
	s.mu.Unlock()
	for _, w := range watchers {
		w.opened(s.in(shard))
	}
}

// Close ends the work on a shard: it starts no further pass, waits for the passes in flight, and
// drops the keys and the memory of the shard. It returns an error if ctx ends before the passes;
// the process then has to end.
func (s *Shards) Close(ctx context.Context, shard int) error {
	s.mu.Lock()
	held := s.held[shard]
	held.idle = make(chan struct{})
	if held.running == 0 {
		close(held.idle)
	}
	s.mu.Unlock()
	select {
	case <-held.idle:
	case <-ctx.Done():
		select {
		case <-held.idle:
		default:
			return context.Cause(ctx)
		}
	}
	s.mu.Lock()
	delete(s.held, shard)
	watchers := slices.Clone(s.watchers)
	s.mu.Unlock()
	for _, w := range watchers {
		w.closed(s.in(shard))
	}
	return nil
}

func (s *Shards) in(shard int) InShard {
	return func(namespace string) bool { return s.Of(namespace) == shard }
}

// Watch calls opened for each shard that the process holds or takes, and closed after a shard was
// drained, until the returned function is called. No pass over the shard is in flight during
// closed. The calls for different shards may be concurrent.
func (s *Shards) Watch(opened, closed func(InShard)) (stop func()) {
	if s == nil {
		return func() {}
	}
	watcher := &shardWatcher{opened: opened, closed: closed}
	s.mu.Lock()
	s.watchers = append(s.watchers, watcher)
	held := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()
	for _, shard := range held {
		opened(s.in(shard))
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers = slices.DeleteFunc(s.watchers, func(w *shardWatcher) bool { return w == watcher })
	}
}

// Holds reports whether the process holds the shard of a namespace.
func (s *Shards) Holds(namespace string) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[s.Of(namespace)] != nil
}

// Held returns the shards that the process holds, sorted.
func (s *Shards) Held() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.held))
}

// Share is the part of a limit of the whole operator that belongs to this process. The parts of all
// shards sum up to the limit. A process has at least 1, so that it makes progress if the limit is
// less than the number of shards. The share of 0, which is no limit, is 0.
func (s *Shards) Share(limit int) int {
	if s == nil || limit == 0 {
		return limit
	}
	share := 0
	for _, shard := range s.Held() {
		share += (shard+1)*limit/s.count - shard*limit/s.count
	}
	return max(share, 1)
}

// Opened is the number of shards that the process has taken so far. It is 1 for a nil *Shards.
func (s *Shards) Opened() int {
	if s == nil {
		return 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Begin begins work in a namespace. The returned context ends with ctx, and when the process loses
// the shard. The shard is not given back before end is called. ok is false if no work may begin.
func (s *Shards) Begin(ctx context.Context, namespace string) (work context.Context, end func(), ok bool) {
	if s == nil {
		return ctx, func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held[s.Of(namespace)]
	if held == nil || held.idle != nil || held.lead.Err() != nil {
		return nil, nil, false
	}
	held.running++
	work, cancel := context.WithCancelCause(ctx)
	unwatch := context.AfterFunc(held.lead, func() { cancel(context.Cause(held.lead)) })
	return work, func() {
		unwatch()
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		held.running--
		if held.running == 0 && held.idle != nil {
			close(held.idle)
		}
	}, true
}

// First returns a function that calls run while the process holds shard 0. It is for work that
// serves all namespaces and that one process does at a time. The work ends with the shard.
func (s *Shards) First(run func(stop, lead context.Context) error) func(stop, lead context.Context) error {
	if s == nil {
		return run
	}
	return func(stop, lead context.Context) error {
		opened := make(chan struct{}, 1)
		unwatch := s.Watch(func(in InShard) {
			if in("") {
				select {
				case opened <- struct{}{}:
				default:
				}
			}
		}, func(InShard) {})
		defer unwatch()
		for {
			select {
			case <-stop.Done():
				return nil
			case <-lead.Done():
				return context.Cause(lead)
			case <-opened:
			}
			if work, end, ok := s.Begin(lead, ""); ok {
				err := run(stop, work)
				end()
				return err
			}
		}
	}
}
