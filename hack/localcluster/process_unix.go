// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// dieWithParent does nothing, because only Linux can tie a child's life to its parent's.
func dieWithParent(*syscall.SysProcAttr) {}

// isolate does nothing, because only Linux has a real node.
func isolate(*syscall.SysProcAttr) {}

// inspect returns the status of the process pid.
func inspect(pid int) (processStatus, error) {
	out, err := exec.CommandContext(context.Background(), "ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return processStatus{}, fmt.Errorf("process %d: %w", pid, err)
	}
	state, started, _ := bytes.Cut(bytes.TrimSpace(out), []byte(" "))
	return processStatus{started: string(bytes.TrimSpace(started)), ended: isEnded(state)}, nil
}
