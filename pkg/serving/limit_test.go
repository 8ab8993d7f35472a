// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"net"
	"net/netip"
	"testing"
)

// connection is a connection from an address. It reports when it is closed.
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
		// accepted says for each connection whether it is accepted.
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
