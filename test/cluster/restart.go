// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// startTimeMetric is the metric of the API server that changes with each process.
const startTimeMetric = "process_start_time_seconds "

// RestartAPIServer ends the API server, starts it again, and waits until it is ready. Watches of
// all clients break.
func (c *Cluster) RestartAPIServer(ctx context.Context, t testing.TB) {
	t.Helper()
	before, err := c.apiServerStart(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.connection.PID, syscall.SIGUSR1); err != nil {
		t.Fatalf("restart the API server: %v", err)
	}
	Eventually(ctx, t, "API server restarted", func(ctx context.Context) (bool, error) {
		now, err := c.apiServerStart(ctx)
		if err != nil || now == before {
			return false, err
		}
		_, err = c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, err
	})
}

// RestartEtcd asks the control plane to end etcd and to start it again.
func (c *Cluster) RestartEtcd() error {
	if err := syscall.Kill(c.connection.PID, syscall.SIGUSR2); err != nil {
		return fmt.Errorf("restart etcd: %w", err)
	}
	return nil
}

// apiServerStart returns the time at which the process of the API server started.
func (c *Cluster) apiServerStart(ctx context.Context) (string, error) {
	metrics, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("metrics of the API server: %w", err)
	}
	for line := range strings.Lines(string(metrics)) {
		if started, ok := strings.CutPrefix(line, startTimeMetric); ok {
			return strings.TrimSpace(started), nil
		}
	}
	return "", errors.New("the metrics of the API server have no start time")
}
