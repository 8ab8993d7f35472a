// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"
)

// addressOf returns the IP address of a remote address of the form host:port. All that cannot be read count as one.
func addressOf(remote string) netip.Addr {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

// budget bounds the bytes of bodies in memory: of all callers, and of one address, so that one cannot take all.
type budget struct {
	all   *semaphore.Weighted
	share int64

	mu        sync.Mutex
	addresses map[netip.Addr]*share
}

// share is the part of one address. It is forgotten when its last user has left.
type share struct {
	bytes *semaphore.Weighted
	users int
}

func newBudget(all, ofAddress int64) *budget {
	return &budget{all: semaphore.NewWeighted(all), share: ofAddress, addresses: map[netip.Addr]*share{}}
}

// take waits until size bytes are free, or until ctx ends. The result gives them back.
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

// limitedListener closes connections beyond a number in all and beyond a number of one address.
type limitedListener struct {
	net.Listener
	all, ofAddress int

	mu        sync.Mutex
	open      int
	addresses map[netip.Addr]int
}

func limit(listener net.Listener, all, ofAddress int) *limitedListener {
	return &limitedListener{Listener: listener, all: all, ofAddress: ofAddress, addresses: map[netip.Addr]int{}}
}

// Accept returns the next connection within the limits.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := addressOf(connection.RemoteAddr().String())
		if l.enter(address) {
			return &limitedConnection{Conn: connection, leave: sync.OnceFunc(func() { l.leave(address) })}, nil
		}
		_ = connection.Close()
	}
}

func (l *limitedListener) enter(address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.all || l.addresses[address] >= l.ofAddress {
		return false
	}
	l.open++
	l.addresses[address]++
	return true
}

func (l *limitedListener) leave(address netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.addresses[address]--; l.addresses[address] == 0 {
		delete(l.addresses, address)
	}
}

// limitedConnection is a connection that counts until it is closed.
type limitedConnection struct {
	net.Conn
	leave func()
}

// Close closes the connection, and makes place for another one.
func (c *limitedConnection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
