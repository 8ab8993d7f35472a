// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill the child when the thread that started the child ends.
func dieWithParent(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
}

// isolate gives the child process and mount namespaces of its own. The end of the child ends all processes in them.
func isolate(attr *syscall.SysProcAttr) {
	attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
}

// inspect returns the status of the process pid.
func inspect(pid int) (processStatus, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStatus{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return parseStat(stat)
}

// parseStat reads a /proc/<pid>/stat line. The second field is the program's name in parentheses,
// with any characters. The fields are therefore counted after the last parenthesis
// (proc_pid_stat(5)).
func parseStat(stat []byte) (processStatus, error) {
	const state, startTime = 3, 22
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= startTime-state {
		return processStatus{}, fmt.Errorf("unexpected process status %q", stat)
	}
	return processStatus{started: string(fields[startTime-state]), ended: isEnded(fields[0])}, nil
}
