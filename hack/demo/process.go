// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// stopLimit is longer than the operator's --shutdown-timeout, 25s.
const stopLimit = 30 * time.Second

// process is the operator while it runs.
type process struct {
	cmd *exec.Cmd
	// ended is closed when the process has ended.
	ended chan struct{}
	// stopping is closed when the process is asked to end.
	stopping chan struct{}
}

// startProcess starts a binary that writes to log. It calls crashed when the process ends without a stop.
func startProcess(ctx context.Context, log *os.File, crashed func(error), binary string, args ...string) (*process, error) {
	// The end of ctx must not kill the operator, which stop ends in order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{}), stopping: make(chan struct{})}
	go p.wait(crashed)
	return p, nil
}

// wait waits for the end of the process, and calls crashed if the end was not requested.
func (p *process) wait(crashed func(error)) {
	err := p.cmd.Wait()
	close(p.ended)
	select {
	case <-p.stopping:
	default:
		if err == nil {
			err = errors.New("exit status 0")
		}
		crashed(fmt.Errorf("the operator ended by itself: %w", err))
	}
}

// stop ends the process and waits for its end. stop may be called again.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return nil // Another process may have its process id by now.
	case <-p.stopping:
	default:
		close(p.stopping)
	}
	// The signal fails only if the process has just ended.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
		return fmt.Errorf("the operator did not stop within %s and was killed", stopLimit)
	}
}
