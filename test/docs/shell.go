// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

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

// endDelay is the time that the shell and its background processes have to end.
const endDelay = 30 * time.Second

// shell is a bash that keeps its variables and background processes from one command to the next, like a terminal.
type shell struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	// codes has the exit code of each command.
	codes *bufio.Scanner
	// folder has the commands and their output, and count is the number of commands so far.
	folder string
	count  int
}

// startShell starts a shell in the folder dir, with env added to the environment of this process.
func startShell(dir, scratch string, env ...string) (*shell, error) {
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
	return &shell{process: process, stdin: stdin, codes: bufio.NewScanner(reports), folder: scratch}, nil
}

// run runs a command and returns what it printed, standard error included, and its exit code. The end of ctx ends the
// shell and all its processes.
func (s *shell) run(ctx context.Context, text string) (output string, code int, err error) {
	s.count++
	script := filepath.Join(s.folder, fmt.Sprintf("command-%d", s.count))
	result := filepath.Join(s.folder, fmt.Sprintf("output-%d", s.count))
	if err := os.WriteFile(script, []byte(text+"\n"), 0o600); err != nil {
		return "", 0, err
	}
	stop := context.AfterFunc(ctx, s.kill)
	defer stop()
	// The output goes to a file of its own, which processes in the background keep open.
	if _, err := fmt.Fprintf(s.stdin, "source %q >%q 2>&1 </dev/null 3>&-; echo $? >&3\n", script, result); err != nil {
		return "", 0, fmt.Errorf("the shell ended: %w", errors.Join(err, context.Cause(ctx)))
	}
	ended := s.codes.Scan()
	printed, err := os.ReadFile(result)
	if err != nil {
		return "", 0, err
	}
	output = strings.TrimRight(string(printed), "\n")
	if !ended {
		return output, 0, fmt.Errorf("the shell ended: %w", errors.Join(s.codes.Err(), context.Cause(ctx)))
	}
	code, err = strconv.Atoi(s.codes.Text())
	return output, code, err
}

// close ends the processes in the background and the shell.
func (s *shell) close() {
	kill := time.AfterFunc(endDelay, s.kill)
	defer kill.Stop()
	_, _ = fmt.Fprintln(s.stdin, "jobs=$(jobs -p); if [ -n \"$jobs\" ]; then kill $jobs; wait $jobs; fi 2>/dev/null")
	_ = s.stdin.Close()
	// The exit code is that of the last background process, which was ended by a signal.
	_ = s.process.Wait()
}

// kill ends the shell and all processes that it started. A process that called setsid goes on.
func (s *shell) kill() {
	_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL)
}
