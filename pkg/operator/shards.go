// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
)

// errNotInGroup means that a process with another number of shards, or without shards, holds the
// common Lease.
var errNotInGroup = errors.New("another group of replicas holds the lease")

// looks is the number of times per retry period at which a replica with less than its share reads
// who holds which shards. It makes the gap in the work on a drained shard shorter than the retry
// period.
const looks = 4

// shardStanding is the relation of this replica to a shard.
type shardStanding int

const (
	// campaigning means that the replica asks for the shard.
	campaigning shardStanding = iota
	// holding means that the replica works on the shard.
	holding
	// leaving means that the replica finishes its work on the shard, or no longer asks for it.
	leaving
)

// target returns the number of shards that a replica should have. The numbers differ by one at
// most. The replicas that hold most have the larger one, so that no shard moves without need. Ties
// are broken by identity.
func target(shards int, self string, live map[string][]int) int {
	order := slices.SortedFunc(maps.Keys(live), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(live[b]), len(live[a])), cmp.Compare(a, b))
	})
	if slices.Index(order, self) < shards%len(live) {
		return shards/len(live) + 1
	}
	return shards / len(live)
}

// nextShards returns the shards for which a replica starts to campaign, and those that it leaves.
// own has its shards, live the shards that each live replica holds, and busy those that leaving
// replicas have yet to give back. A replica gives back one shard at a time, the last one. It never
// gives back shard 0, so that the work that one replica does for all does not move. Replicas begin
// with different free shards, by the order of their identities, because a replica that loses a
// campaign starts the next one only after a retry period. lacks is true if the replica holds less
// than its share, and waits until other replicas give back shards.
func nextShards(
	shards int, self string, own map[int]shardStanding, live map[string][]int, busy []int,
) (start, leave []int, lacks bool) {
	taken := map[int]bool{}
	for _, shard := range busy {
		taken[shard] = true
	}
	for identity, held := range live {
		for _, shard := range held {
			if identity != self {
				taken[shard] = true
			}
		}
	}
	held, kept, drains := []int{}, 0, false
	for _, shard := range slices.Sorted(maps.Keys(own)) {
		switch standing := own[shard]; {
		case standing == leaving:
			drains = true
		case standing == campaigning && taken[shard]:
			leave = append(leave, shard)
		default:
			kept++
			if standing == holding {
				held = append(held, shard)
			}
		}
	}
	most := target(shards, self, live)
	if len(held) > most && !drains {
		leave = append(leave, held[len(held)-1])
	}
	var free []int
	for shard := range shards {
		if _, ours := own[shard]; !ours && !taken[shard] {
			free = append(free, shard)
		}
	}
	rank := slices.Index(slices.Sorted(maps.Keys(live)), self)
	for i := 0; i < len(free) && kept < most; i++ {
		start = append(start, free[(rank*len(free)/len(live)+i)%len(free)])
		kept++
	}
	return start, leave, len(held) < most
}

// sharding campaigns for the fair share of this replica, and opens the shards that it holds.
type sharding struct {
	replicas *replicas
	shards   *controller.Shards
	// held is the gauge of held shards, by shard.
	held *prometheus.GaugeVec
	// taken receives a value after this replica has opened a shard. It has room for one.
	taken chan struct{}

	mu  sync.Mutex
	own map[int]shardStanding
}

// newSharding returns the sharding of a replica.
func newSharding(replicas *replicas, shards *controller.Shards, held *prometheus.GaugeVec) *sharding {
	s := &sharding{replicas: replicas, shards: shards, held: held, taken: make(chan struct{}, 1), own: map[int]shardStanding{}}
	replicas.held = s.leased
	return s
}

// leased returns the shards whose Leases this replica has, in order: also those that wait for their
// caches, and those that are drained.
func (s *sharding) leased() []int {
	leased := s.shards.Held()
	s.mu.Lock()
	defer s.mu.Unlock()
	for shard, standing := range s.own {
		if standing == holding && !slices.Contains(leased, shard) {
			leased = append(leased, shard)
		}
	}
	slices.Sort(leased)
	return leased
}

// shardLeaseName returns the name of the Lease of a shard.
func shardLeaseName(options LeaderElectionOptions, shard int) string {
	return fmt.Sprintf("%s-shard-%d", options.ResourceName, shard)
}

// shardEnd is the end of a campaign for a shard.
type shardEnd struct {
	shard int
	err   error
}

// run campaigns until stop or lead ends. It then drains all shards and releases their Leases. An
// error that wraps errWorkersLeft means that work on a lost shard has not ended in time.
func (s *sharding) run(stop, lead context.Context) error {
	logger := klog.FromContext(stop)
	for shard := range s.replicas.shards {
		s.held.WithLabelValues(fmt.Sprint(shard)).Set(0)
	}
	campaigns, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(lead, cancel)()
	stops, ended := map[int]context.CancelFunc{}, make(chan shardEnd, s.replicas.shards)
	for {
		var soon <-chan time.Time
		var stopped <-chan struct{}
		switch {
		case campaigns.Err() == nil:
			stopped = campaigns.Done()
			start, leave, lacks := s.next()
			if lacks {
				soon = time.After(s.replicas.options.RetryPeriod / looks)
			}
			for _, shard := range leave {
				stops[shard]()
			}
			for _, shard := range start {
				ctx, cancel := context.WithCancel(campaigns)
				stops[shard] = cancel
				go func() { ended <- shardEnd{shard, s.campaign(ctx, shard)} }()
			}
		case len(stops) == 0:
			return nil
		case lead.Err() == nil && !s.replicas.isLeaving():
			s.replicas.leave(context.WithoutCancel(stop))
		}
		select {
		case <-s.replicas.changed:
		case <-soon:
			s.replicas.refresh(campaigns)
		case <-s.taken:
			s.replicas.publish(campaigns) // Others then end their campaigns for the shard.
		case <-stopped:
		case end := <-ended:
			stops[end.shard]()
			delete(stops, end.shard)
			s.forget(end.shard)
			switch {
			case errors.Is(end.err, errWorkersLeft):
				return fmt.Errorf("shard %d: %w", end.shard, end.err)
			case end.err != nil:
				logger.Error(end.err, "Lost a shard", "shard", end.shard)
			}
			if end.err == nil && lead.Err() == nil && len(stops) > 0 && len(ended) == 0 {
				s.replicas.publish(context.WithoutCancel(stop))
			}
		}
	}
}

// next returns the shards to start and to leave, and records both. See nextShards for lacks.
func (s *sharding) next() (start, leave []int, lacks bool) {
	live, busy := s.replicas.live()
	s.mu.Lock()
	defer s.mu.Unlock()
	start, leave, lacks = nextShards(s.replicas.shards, s.replicas.identity, s.own, live, busy)
	for _, shard := range start {
		s.own[shard] = campaigning
	}
	for _, shard := range leave {
		s.own[shard] = leaving
	}
	return start, leave, lacks
}

// forget removes the standing of a shard.
func (s *sharding) forget(shard int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.own, shard)
}

// campaign runs for a shard until stop ends, and works on it while this replica holds its Lease.
func (s *sharding) campaign(stop context.Context, shard int) error {
	options := s.replicas.options
	options.ResourceName = shardLeaseName(options, shard)
	leadership := newLeadership(options, s.replicas.identity, s.replicas.leases, func(bool) {})
	leadership.isGone = s.replicas.isGone
	return leadership.run(stop, func(stop, lead context.Context) error { return s.work(stop, lead, shard) })
}

// work fills the caches, opens the shard until stop or lead ends, and returns when it is drained.
// After the loss of the Lease, work in flight has the time that the loss leaves.
func (s *sharding) work(stop, lead context.Context, shard int) error {
	logger := klog.FromContext(stop)
	s.mu.Lock()
	if s.own[shard] == campaigning {
		s.own[shard] = holding
	}
	s.mu.Unlock()
	logger.V(1).Info("Has the lease of a shard", "shard", shard)
	defer s.shards.Selection().Remove(shard)
	if !s.fill(stop, lead, shard) {
		return context.Cause(lead)
	}
	logger.Info("Took a shard", "shard", shard)
	held := s.held.WithLabelValues(fmt.Sprint(shard))
	held.Set(1)
	defer held.Set(0)
	s.shards.Open(lead, shard)
	select {
	case s.taken <- struct{}{}:
	default:
	}
	select {
	case <-stop.Done():
	case <-lead.Done():
	}
	patience, cancel := context.WithCancel(context.WithoutCancel(stop))
	defer cancel()
	defer context.AfterFunc(lead, func() {
		loss := (*leaseLostError)(nil)
		if errors.As(context.Cause(lead), &loss) {
			giveUp, done := context.WithDeadline(patience, loss.end)
			defer done()
			<-giveUp.Done()
		}
		cancel()
	})()
	if err := s.shards.Close(patience, shard); err != nil {
		return errors.Join(context.Cause(lead), errWorkersLeft)
	}
	if lost := context.Cause(lead); lost != nil {
		return lost
	}
	logger.Info("Drained a shard", "shard", shard)
	return nil
}

// fill waits until the caches have the objects of the shard. It returns false if stop or lead ends
// before.
func (s *sharding) fill(stop, lead context.Context, shard int) bool {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(lead, cancel)()
	return s.shards.Selection().Add(ctx, shard) == nil
}
