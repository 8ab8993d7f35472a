// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// RestartEtcd ends etcd, and waits until another process has taken its place. That one does not
// answer at first.
func (c *Cluster) RestartEtcd(ctx context.Context) error {
	before, err := c.EtcdPID()
	if err != nil {
		return err
	}
	if err := syscall.Kill(c.connection.PID, syscall.SIGUSR2); err != nil {
		return fmt.Errorf("restart etcd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	last, err := poll(ctx, func(context.Context) (bool, error) {
		now, err := c.EtcdPID()
		return err == nil && now != before, err
	})
	if err != nil {
		return fmt.Errorf("restart etcd: %w", errors.Join(err, last))
	}
	return nil
}

// EtcdPID returns the process id of etcd, which is another one after a restart.
func (c *Cluster) EtcdPID() (int, error) {
	content, err := os.ReadFile(filepath.Join(c.Dir(), "state.json"))
	if err != nil {
		return 0, fmt.Errorf("state of the control plane: %w", err)
	}
	var state struct {
		Components []struct {
			Name string `json:"name"`
			PID  int    `json:"pid"`
		} `json:"components"`
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return 0, fmt.Errorf("state of the control plane: %w", err)
	}
	for _, component := range state.Components {
		if component.Name == "etcd" {
			return component.PID, nil
		}
	}
	return 0, errors.New("the control plane has no etcd")
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
