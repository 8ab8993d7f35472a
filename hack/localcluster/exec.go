// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// connectionVariable names the environment variable in which a command of exec finds the connection, as JSON.
const connectionVariable = "LOCALCLUSTER_CONNECTION"

// commandGrace is how long a command may take to end after SIGTERM.
const commandGrace = 15 * time.Second

// errCommandEnded is the cause of a stop that began with the end of the command.
var errCommandEnded = errors.New("the command ended")

// exec runs a command while the instance runs, and ends the instance with the command.
func (u *up) exec(ctx context.Context, stdin io.Reader, command []string) error {
	binDir, err := builder{layout: u.layout, progress: u.stderr}.ensure(ctx)
	if err != nil {
		return err
	}
	return u.runWithin(ctx, u.supervisor(binDir).run, func(ctx context.Context, connection string) error {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, u.stdout, u.stderr
		cmd.Env = append(os.Environ(), connectionVariable+"="+connection)
		// A signal that ends localcluster also ends the processes that the command started.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
		cmd.WaitDelay = commandGrace
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", command[0], err)
		}
		return nil
	})
}

// runWithin starts the instance with serve, runs work with its connection, and ends the instance. The end of ctx ends
// the work before the instance; an instance that fails ends the work.
func (*up) runWithin(ctx context.Context, serve func(ctx context.Context, ready io.Writer) error,
	work func(ctx context.Context, connection string) error,
) error {
	serving, stopServing := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopServing(nil)
	working, stopWorking := context.WithCancelCause(ctx)
	defer stopWorking(nil)
	reports, reportWriter := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := serve(serving, reportWriter)
		stopWorking(errors.Join(errors.New("the control plane ended"), err))
		_ = reportWriter.Close()
		served <- err
	}()

	abandonStart := context.AfterFunc(ctx, func() { stopServing(context.Cause(ctx)) })
	line, readErr := bufio.NewReader(reports).ReadString('\n')
	if !abandonStart() || readErr != nil {
		return errors.Join(<-served, context.Cause(ctx))
	}
	workErr := work(working, strings.TrimSpace(line))
	stopServing(errCommandEnded)
	return errors.Join(workErr, <-served)
}
