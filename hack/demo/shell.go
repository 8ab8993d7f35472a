// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// killDelay is the time between SIGTERM and SIGKILL.
const killDelay = 5 * time.Second

// posixShell runs commands with sh, like a user who types them.
type posixShell struct {
	// env is the environment of the commands.
	env []string
}

// command prepares a command in a process group of its own. An interrupt from the terminal then reaches only this
// program, which ends the command and can still run others to clean up.
func (s posixShell) command(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	return cmd
}

// run implements shell.
func (s posixShell) run(ctx context.Context, command string) (string, error) {
	cmd := s.command(ctx, command)
	var output bytes.Buffer
	cmd.Stdout = &output
	cmd.Stderr = &output
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("it ended with %w", err)
	}
	return output.String(), nil
}

// stream implements shell. The lines include standard error.
func (s posixShell) stream(ctx context.Context, command string) (<-chan line, error) {
	cmd := s.command(ctx, command)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", command, err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run %q: %w", command, err)
	}
	// The buffer holds the output of a watch until it is read, so that the times are right.
	lines := make(chan line, 1024)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			select {
			case lines <- line{text: scanner.Text(), at: time.Now()}:
			case <-ctx.Done():
			}
		}
		// The command ends because ctx ended, so the error has no information.
		_ = cmd.Wait()
	}()
	return lines, nil
}
