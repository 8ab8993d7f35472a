// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
)

func TestBudget(t *testing.T) {
	const all, ofAddress = 10, 6
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	tests := []struct {
		name    string
		address netip.Addr
		size    int64
		waits   bool
	}{
		{"the rest of an address", one, 1, false},
		{"more than the rest of an address", one, 2, true},
		{"another address", two, 5, false},
		{"another address with more than the rest of all", two, 6, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := newBudget(all, ofAddress)
				release, err := budget.take(t.Context(), one, 5)
				if err != nil {
					t.Fatal(err)
				}
				taken := make(chan func(), 1)
				go func() {
					release, err := budget.take(t.Context(), test.address, test.size)
					if err != nil {
						t.Error(err)
					}
					taken <- release
				}()

				synctest.Wait()

				if waits := len(taken) == 0; waits != test.waits {
					t.Errorf("waits: %t, want %t", waits, test.waits)
				}
				release()
				(<-taken)()
				if len(budget.addresses) > 0 {
					t.Errorf("%d addresses are kept", len(budget.addresses))
				}
			})
		})
	}
}

func TestBudgetIsNotWaitedForLongerThanTheRequest(t *testing.T) {
	budget, address := newBudget(4, 2), netip.MustParseAddr("10.0.0.1")
	release, err := budget.take(t.Context(), address, 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = budget.take(ctx, address, 1)

	if err == nil {
		t.Error("more was taken than an address may")
	}
	release()
	if len(budget.addresses) > 0 || !budget.all.TryAcquire(4) {
		t.Error("not all was given back")
	}
}

// connection is one from an address that tells when it is closed.
type connection struct {
	net.Conn
	address string
	closed  bool
}

func (c *connection) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.address))
}

func (c *connection) Close() error {
	c.closed = true
	return nil
}

// listener returns its connections in turn, then an error.
type listener struct {
	net.Listener
	connections []*connection
}

func (l *listener) Accept() (net.Conn, error) {
	if len(l.connections) == 0 {
		return nil, net.ErrClosed
	}
	next := l.connections[0]
	l.connections = l.connections[1:]
	return next, nil
}

func TestConnectionsAreLimited(t *testing.T) {
	const all, ofAddress = 3, 2
	tests := []struct {
		name string
		from []string
		// accepted tells for each connection whether it is.
		accepted []bool
	}{
		{"one address", []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"}, []bool{true, true, false}},
		{"in two forms", []string{"10.0.0.1:1", "10.0.0.1:2", "[::ffff:10.0.0.1]:3"}, []bool{true, true, false}},
		{"two addresses", []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"}, []bool{true, true, true}},
		{"in all", []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"}, []bool{true, true, true, false}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var connections []*connection
			for _, address := range test.from {
				connections = append(connections, &connection{address: address})
			}
			limited := limit(&listener{connections: connections}, all, ofAddress)

			var accepted []net.Conn
			for {
				next, err := limited.Accept()
				if err != nil {
					break
				}
				accepted = append(accepted, next)
			}

			for i, want := range test.accepted {
				if got := !connections[i].closed; got != want {
					t.Errorf("connection %d is accepted: %t, want %t", i, got, want)
				}
			}
			for _, connection := range accepted {
				_, _ = connection.Close(), connection.Close()
			}
			if limited.open != 0 || len(limited.addresses) > 0 {
				t.Errorf("%d connections and %d addresses count after all are closed", limited.open, len(limited.addresses))
			}
		})
	}
}
