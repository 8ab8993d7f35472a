// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"
)

// budget bounds the bytes of request bodies in memory, in total and for each address, so that one
// address cannot use up the total.
type budget struct {
	all   *semaphore.Weighted
	share int64

	mu        sync.Mutex
	addresses map[netip.Addr]*share
}

// share is the part of the budget that one address uses. It is removed after the last request of
// the address.
type share struct {
	bytes *semaphore.Weighted
	users int
}

func newBudget(all, ofAddress int64) *budget {
	return &budget{all: semaphore.NewWeighted(all), share: ofAddress, addresses: map[netip.Addr]*share{}}
}

// take waits until size bytes are free, or until ctx ends. Call release to return the bytes.
func (b *budget) take(ctx context.Context, address netip.Addr, size int64) (release func(), err error) {
	b.mu.Lock()
	own := b.addresses[address]
	if own == nil {
		own = &share{bytes: semaphore.NewWeighted(b.share)}
		b.addresses[address] = own
	}
	own.users++
	b.mu.Unlock()
	if err := own.bytes.Acquire(ctx, size); err != nil {
		b.leave(address, own)
		return nil, err
	}
	if err := b.all.Acquire(ctx, size); err != nil {
		own.bytes.Release(size)
		b.leave(address, own)
		return nil, err
	}
	return func() {
		b.all.Release(size)
		own.bytes.Release(size)
		b.leave(address, own)
	}, nil
}

func (b *budget) leave(address netip.Addr, own *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(b.addresses, address)
	}
}
