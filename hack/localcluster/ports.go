// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// pickPorts returns ports that nobody listens on. They are not reserved: a component that then finds its port taken
// ends, and the supervisor starts over with others.
func pickPorts() (ports, error) {
	var numbers [3]int
	for i := range numbers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, fmt.Errorf("find a free port: %w", err)
		}
		// Closed only on return, so that no port is found twice.
		defer listener.Close()
		numbers[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports{apiServer: numbers[0], etcd: numbers[1], etcdPeer: numbers[2]}, nil
}

// isTaken reports whether somebody listens on port.
func isTaken(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	listener.Close()
	return false
}
