// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// identity distinguishes a process from a later one with the same number.
type identity struct {
	// Name says what the process is, for people.
	Name string `json:"name"`
	// PID is the process id.
	PID int `json:"pid"`
	// Started is the start time as the system writes it. It is compared only.
	Started string `json:"started"`
}

// processStatus is the system's information about a process.
type processStatus struct {
	// started is the start time as the system writes it.
	started string
	// ended is true for a process that has ended and that its parent has not waited for yet.
	ended bool
}

// isEnded reads a process state as /proc and ps write it.
func isEnded(state []byte) bool {
	return bytes.HasPrefix(state, []byte("Z")) || bytes.HasPrefix(state, []byte("X"))
}

// identify returns the identity of the process pid.
func identify(name string, pid int) (identity, error) {
	status, err := inspect(pid)
	if err != nil {
		return identity{}, fmt.Errorf("identify %s: %w", name, err)
	}
	return identity{Name: name, PID: pid, Started: status.started}, nil
}

// alive reports whether this very process still runs.
func (id identity) alive() bool {
	if id.PID <= 1 {
		return false
	}
	status, err := inspect(id.PID)
	return err == nil && !status.ended && status.started == id.Started
}

// signal sends sig if this very process still runs, and does nothing otherwise.
func (id identity) signal(sig syscall.Signal) error {
	if !id.alive() {
		return nil
	}
	if err := syscall.Kill(id.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s (process %d): %w", id.Name, id.PID, err)
	}
	return nil
}

// child is a child process.
type child struct {
	identity
	cmd *exec.Cmd
	// done is closed when the process has ended; err says how and may be read after that.
	done chan struct{}
	err  error
	// component is the running program. replaced says that its end is expected.
	component component
	replaced  atomic.Bool
}

// launcher starts children that die with this process. The kernel ties a child's life to the thread
// that started the child. So one goroutine that never leaves its thread starts all of them. The
// launcher lives until close.
type launcher struct {
	requests chan func()
}

func newLauncher() *launcher {
	l := &launcher{requests: make(chan func())}
	go func() {
		// The thread ends with the goroutine, because it may be in namespaces of its own.
		runtime.LockOSThread()
		for request := range l.requests {
			request()
		}
	}()
	return l
}

// close ends the launcher's goroutine.
func (l *launcher) close() { close(l.requests) }

// do calls f on the thread of the launcher.
func (l *launcher) do(f func() error) error {
	done := make(chan error)
	l.requests <- func() { done <- f() }
	return <-done
}

// launch starts path with args; output gets stdout and stderr. The end of ctx kills the child. The
// child has a process group of its own, so that a Ctrl-C in the terminal reaches only this process,
// which then ends the children in order.
func (l *launcher) launch(ctx context.Context, c component, path string, output *os.File) (*child, error) {
	name := c.name
	cmd := exec.CommandContext(ctx, path, c.args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if c.isolated {
		isolate(cmd.SysProcAttr)
	}
	if err := l.do(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	// The process stays in the process table until Wait, so the number cannot belong to another
	// process.
	id, err := identify(name, cmd.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	started := &child{identity: id, cmd: cmd, done: make(chan struct{}), component: c}
	go func() {
		started.err = cmd.Wait()
		close(started.done)
	}()
	return started, nil
}
