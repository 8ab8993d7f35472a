// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// The ports of servers in tests. They are below those that the system gives to connections and to
// other listeners without a port, so that none of these takes a port before its server listens.
const (
	firstPort = 15_000
	portCount = 15_000
)

var (
	portMutex sync.Mutex
	// portsTried makes the ports of this process different. Another process begins elsewhere.
	portsTried = os.Getpid() * 101
)

// FreePort returns a port of 127.0.0.1 on which no process listens. Another call returns another
// port.
func FreePort(ctx context.Context, t testing.TB) int {
	t.Helper()
	port, err := freePort(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// FreeAddress returns an address with a free port of 127.0.0.1.
func FreeAddress(ctx context.Context, t testing.TB) string {
	t.Helper()
	return loopback(FreePort(ctx, t))
}

func freePort(ctx context.Context) (int, error) {
	portMutex.Lock()
	defer portMutex.Unlock()
	for range portCount {
		port := firstPort + portsTried%portCount
		portsTried++
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("find a free port: all from %d to %d are taken", firstPort, firstPort+portCount-1)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
