// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// pickPorts returns ports on which no process listens. They are not reserved. A component that
// finds its port taken ends, and the supervisor starts over with other ports.
func pickPorts(ctx context.Context) (p ports, err error) {
	var listeners []net.Listener
	// The listeners are closed only at the end, so that no port is found twice.
	defer func() {
		for _, listener := range listeners {
			err = errors.Join(err, listener.Close())
		}
	}()
	for _, port := range []*int{&p.apiServer, &p.etcd, &p.etcdPeer} {
		listener, err := listen(ctx, 0)
		if err != nil {
			return ports{}, fmt.Errorf("find a free port: %w", err)
		}
		listeners = append(listeners, listener)
		if *port, err = portOf(listener); err != nil {
			return ports{}, err
		}
	}
	return p, nil
}

// isTaken reports whether a process listens on port.
func isTaken(ctx context.Context, port int) bool {
	listener, err := listen(ctx, port)
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = listener.Close()
	return false
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

func portOf(listener net.Listener) (int, error) {
	address, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("port of a listener: %w", err)
	}
	return int(address.Port()), nil
}
