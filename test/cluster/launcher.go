// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os/exec"
	"runtime"
	"syscall"
)

// launcher starts processes that die with this one. The kernel ties a child's life to the thread that started it, so one
// goroutine that never leaves its thread starts them all.
type launcher struct {
	requests chan func()
}

func newLauncher() *launcher {
	l := &launcher{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for request := range l.requests {
			request()
		}
	}()
	return l
}

// close ends the launcher's goroutine.
func (l *launcher) close() { close(l.requests) }

// start starts cmd. A cmd with a stdin pipe is expected to notice by itself that this process died, and to clean up.
func (l *launcher) start(cmd *exec.Cmd) error {
	// Away from the terminal's Ctrl-C, which would reach it at the same time as the test that is to stop it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Stdin == nil {
		dieWithParent(cmd.SysProcAttr)
	}
	started := make(chan error)
	l.requests <- func() { started <- cmd.Start() }
	return <-started
}
