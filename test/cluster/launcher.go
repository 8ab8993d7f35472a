// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os/exec"
	"runtime"
	"syscall"
)

// launcher starts processes that die with this process. The kernel ties a child's life to the
// thread that started the child. So one goroutine that never leaves its thread starts all of them.
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

// start starts cmd. A cmd with a stdin pipe is expected to notice the death of this process by
// itself, and to clean up.
func (l *launcher) start(cmd *exec.Cmd) error {
	// A process group of its own keeps the terminal's Ctrl-C away from the child, which the test
	// then stops in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Stdin == nil {
		dieWithParent(cmd.SysProcAttr)
	}
	started := make(chan error)
	l.requests <- func() { started <- cmd.Start() }
	return <-started
}
