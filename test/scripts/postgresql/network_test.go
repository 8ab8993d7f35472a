// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package postgresql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// The addresses of the pods of the primary, one after the other, and the name under which standbys find them.
const (
	firstAddress, secondAddress = "127.0.0.2", "127.0.0.3"
	primaryName                 = "primary.invalid"
)

// streamingLimit is how long a standby may take to stream again after a restarted primary is ready.
const streamingLimit = 20 * time.Second

// TestStandbyFollowsPrimaryToNewAddress: the old address no longer answers, as on a node that is gone, so nothing ends a connection or
// an attempt to connect. Each case takes up to 20 seconds, the time that is tested.
func TestStandbyFollowsPrimaryToNewAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// beforeRestart plays the standby when the new primary starts.
		beforeRestart func(n *network, primary, standby *server)
	}{
		{"the standby tries to connect to the old address", func(n *network, primary, standby *server) {
			primary.kill() // The kernel closes the connection of the standby.
			n.silence(firstAddress)
			n.awaitAttempt(standby, firstAddress)
		}},
		{"the connection to the old address is still open", func(n *network, primary, _ *server) {
			n.silence(firstAddress)
			primary.kill()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			d := newDatabase(t)
			d.variables["HOST_0"], d.variables["LISTEN"] = primaryName, "*"
			n.resolve(firstAddress)
			primary, standby := d.start(0), d.start(1)
			primary.awaitReady()
			standby.awaitReady()
			primary.do("CREATE TABLE rows ()")
			standby.awaitRows("0")

			test.beforeRestart(n, primary, standby)
			n.resolve(secondAddress)
			primary = primary.start(0)
			primary.awaitReady()
			begin := time.Now()
			primary.awaitStandby(standby)

			if took := time.Since(begin); took > streamingLimit {
				t.Errorf("the standby streams after %s, want at most %s", took.Round(time.Second), streamingLimit)
			}
			standby.awaitReady()
			primary.do("INSERT INTO rows DEFAULT VALUES")
			standby.awaitRows("1")
			// The readiness probe of the standby has asked the primary meanwhile.
			if strings.Contains(primary.output.String(), "pg_hba.conf rejects") {
				t.Errorf("the primary logs refused connections:\n%s", primary.output)
			}
		})
	}
}

// awaitStandby waits until a standby streams from this primary. Meanwhile, it runs the readiness probe of the standby.
func (s *server) awaitStandby(standby *server) {
	s.t.Helper()
	cluster.Eventually(s.t.Context(), s.t, fmt.Sprintf("server %d streams", standby.ordinal), func(context.Context) (bool, error) {
		standby.mustRun()
		output, _ := standby.exec("ready.sh") // It fails until the standby streams.
		return s.superuser("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1", errors.New(output)
	})
}

// network is a network namespace of a test, with names of its own.
type network struct {
	t     *testing.T
	hosts string
}

// newNetwork gives the goroutine of the test, and the processes that it starts from now on, their own network and file of host names.
func newNetwork(t *testing.T) *network {
	t.Helper()
	// The thread ends with the goroutine, and the namespaces with the last process in them.
	runtime.LockOSThread()
	expect.NoError(t, syscall.Unshare(syscall.CLONE_NEWNET|syscall.CLONE_NEWNS))
	n := &network{t: t, hosts: filepath.Join(t.TempDir(), "hosts")}
	n.resolve(firstAddress)
	expect.NoError(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	expect.NoError(t, syscall.Mount(n.hosts, "/etc/hosts", "", syscall.MS_BIND, ""))
	n.run("ip", "link", "set", "lo", "up")
	n.run("nft", "add table ip test; add chain ip test input { type filter hook input priority 0; }")
	return n
}

func (n *network) run(name string, args ...string) string {
	n.t.Helper()
	output, err := exec.CommandContext(n.t.Context(), name, args...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v: %s", strings.Join(append([]string{name}, args...), " "), err, output)
	}
	return string(output)
}

// resolve sets the address of the primary's name.
func (n *network) resolve(address string) {
	n.t.Helper()
	// All programs see the file at once, since it stays the same one.
	expect.NoError(n.t, os.WriteFile(n.hosts, fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", address, primaryName), 0o644))
}

// silence drops traffic to and from an address.
func (n *network) silence(address string) {
	n.t.Helper()
	n.run("nft", "add rule ip test input ip daddr "+address+" drop; add rule ip test input ip saddr "+address+" drop")
}

// awaitAttempt waits until a server tries to connect to an address.
func (n *network) awaitAttempt(s *server, address string) {
	n.t.Helper()
	cluster.Eventually(n.t.Context(), n.t, "an attempt to connect to "+address, func(context.Context) (bool, error) {
		s.mustRun()
		sockets := n.run("ss", "--no-header", "--numeric", "--tcp", "state", "syn-sent", "dst", address) //nolint:contextcheck // It has the test's context.
		return sockets != "", errors.New("there is none")
	})
}
