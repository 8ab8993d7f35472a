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
	// stopping is closed when it was asked to.
	stopping chan struct{}
}

// startProcess starts a binary that writes to log. It calls crashed when the process ends and nobody asked it to.
func startProcess(ctx context.Context, log *os.File, crashed func(error), binary string, args ...string) (*process, error) {
	// Not ended by ctx: whatever ends the tour, the operator is ended by stop, in order.
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

// wait waits for the end of the process, and tells whom it may concern.
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

// stop ends the process and waits for it. It may be called again.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return nil // Its process id may be somebody else's by now.
	case <-p.stopping:
	default:
		close(p.stopping)
	}
	// The only error is that the process has ended in this moment, which is as well.
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
