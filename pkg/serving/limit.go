// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"net"
	"net/netip"
	"sync"
)

// AddressOf returns the IP address of a remote address of the form host:port. All that cannot be
// read count as one.
func AddressOf(remote string) netip.Addr {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

// limitedListener is the listener of Limit.
type limitedListener struct {
	net.Listener
	all, ofAddress int

	mu        sync.Mutex
	open      int
	addresses map[netip.Addr]int
}

// Limit returns a listener that closes connections beyond a number in all, and beyond a number of
// one address.
func Limit(listener net.Listener, all, ofAddress int) net.Listener {
	return limit(listener, all, ofAddress)
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
		address := AddressOf(connection.RemoteAddr().String())
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
