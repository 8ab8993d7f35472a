// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// endDelay is the time that the shell and its background processes have to end.
	endDelay = 30 * time.Second
	// interruptDelay is the time that an interrupted command has to end.
	interruptDelay = 10 * time.Second
)

// setUp lets an interrupt end the current command, and not the shell. The background processes end
// with the shell.
const setUp = `trap 'return 130' INT
trap '{ kill $(jobs -p); wait; } 2>/dev/null' EXIT
`

// Shell is a bash that keeps its variables and background processes from one command to the next,
// like a terminal.
type Shell struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	// codes has the exit code of each command.
	codes *bufio.Scanner
	// folder has the commands and their output, and count is the number of commands so far.
	folder string
	count  int
}

// StartShell starts a shell in the folder dir, with env added to the environment of this process.
// The shell keeps its files in the folder scratch. It ends when this process ends, or by
// [Shell.Close].
func StartShell(dir, scratch string, env ...string) (*Shell, error) {
	reports, reportWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(context.Background(), "bash", "--noprofile", "--norc")
	process.Dir = dir
	process.Env = append(os.Environ(), env...)
	// The codes come through a pipe of their own, which commands do not get.
	process.ExtraFiles = []*os.File{reportWriter}
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	err = process.Start()
	_ = reportWriter.Close()
	if err != nil {
		return nil, fmt.Errorf("start bash: %w", err)
	}
	s := &Shell{process: process, stdin: stdin, codes: bufio.NewScanner(reports), folder: scratch}
	if _, err := io.WriteString(stdin, setUp); err != nil {
		s.Close()
		return nil, fmt.Errorf("start bash: %w", err)
	}
	return s, nil
}

// Run runs a command and returns its output, standard error included, and its exit code. The end of
// ctx interrupts the command and the background processes, as Ctrl-C does in a terminal. Run then
// returns the cause of that end.
func (s *Shell) Run(ctx context.Context, text string) (output string, code int, err error) {
	s.count++
	script := filepath.Join(s.folder, fmt.Sprintf("command-%d", s.count))
	if err := os.WriteFile(script, []byte(text+"\n"), 0o600); err != nil {
		return "", 0, err
	}
	defer s.interruptAtEnd(ctx)()
	// The output goes to a file of its own, which processes in the background keep open.
	if _, err := fmt.Fprintf(s.stdin, "source %q >%q 2>&1 </dev/null 3>&-; echo $? >&3\n", script, s.outputFile()); err != nil {
		return "", 0, fmt.Errorf("the shell ended: %w", errors.Join(err, context.Cause(ctx)))
	}
	ended := s.codes.Scan()
	printed, err := os.ReadFile(s.outputFile())
	if err != nil {
		return "", 0, err
	}
	output = strings.TrimRight(string(printed), "\n")
	if ctx.Err() != nil {
		return output, 0, context.Cause(ctx)
	}
	if !ended {
		return output, 0, fmt.Errorf("the shell ended: %w", s.codes.Err())
	}
	code, err = strconv.Atoi(s.codes.Text())
	return output, code, err
}

// outputFile returns the path of the output of the last command.
func (s *Shell) outputFile() string {
	return filepath.Join(s.folder, fmt.Sprintf("output-%d", s.count))
}

// interruptAtEnd interrupts the processes of the shell when ctx ends, and kills the shell if that
// does not help. The command has ended when stop is called.
func (s *Shell) interruptAtEnd(ctx context.Context) (stop func()) {
	ended := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		s.signal(syscall.SIGINT)
		timer := time.NewTimer(interruptDelay)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			s.signal(syscall.SIGKILL)
		}
	})
	return func() {
		unregister()
		close(ended)
	}
}

// Close ends the processes in the background and the shell.
func (s *Shell) Close() {
	kill := time.AfterFunc(endDelay, func() { s.signal(syscall.SIGKILL) })
	defer kill.Stop()
	_ = s.stdin.Close()
	// The exit code comes from the last background process, which was ended by a signal.
	_ = s.process.Wait()
}

// signal sends a signal to the shell and to all processes that it started. A process that called
// setsid gets none.
func (s *Shell) signal(number syscall.Signal) { _ = syscall.Kill(-s.process.Process.Pid, number) }
