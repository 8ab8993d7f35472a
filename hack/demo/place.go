// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/example/demoapp-controller/hack/pages"
)

// endLimit bounds the time that a control plane takes to end.
const endLimit = 30 * time.Second

// place is a cluster for the tour. The control plane reports its fields with JSON names.
type place struct {
	Kubeconfig string `json:"kubeconfig"`
	// BinDir has a kubectl, unless it is empty.
	BinDir string `json:"binDir"`

	// process is a control plane that ends with the tour. It is nil for a cluster of the user.
	process  *exec.Cmd
	lifeline io.Closer
	// started is closed when the control plane has reported itself, or has failed with err.
	started chan struct{}
	err     error
}

// localCluster prepares a command of hack/localcluster, in a process group of its own. It reports
// its progress on standard error. The end of ctx interrupts the command.
func localCluster(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{"-C", "hack/localcluster", "run", "."}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = endLimit
	return cmd
}

// startPlace begins to build and start a control plane, which ends at the latest with this process.
func startPlace(ctx context.Context, screen *pages.Screen) (*place, error) {
	// The clean-up needs the control plane after the end of ctx.
	p := &place{process: localCluster(context.WithoutCancel(ctx), "up", "--foreground"), started: make(chan struct{})}
	screen.Printf("\n  $ %s &\n", strings.Join(p.process.Args, " "))
	var err error
	if p.lifeline, err = p.process.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.process.Start(); err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	go func() {
		defer close(p.started)
		if err := json.NewDecoder(stdout).Decode(p); err != nil {
			p.err = fmt.Errorf("the control plane did not start: %w", err)
		}
	}()
	return p, nil
}

// await waits until the cluster can be used.
func (p *place) await(ctx context.Context) error {
	if p.process == nil {
		return nil
	}
	select {
	case <-p.started:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave ends the control plane, also while it is being built.
func (p *place) leave() error {
	if p.process == nil {
		return nil
	}
	_ = p.lifeline.Close()
	select {
	case <-p.started:
	default:
		// A build does not notice the lifeline. Errors mean that the process has just ended.
		_ = p.process.Cancel()
	}
	killer := time.AfterFunc(endLimit, func() { _ = syscall.Kill(-p.process.Process.Pid, syscall.SIGKILL) })
	defer killer.Stop()
	<-p.started
	err := p.process.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && p.err != nil {
		return nil // The start failed, which await has reported.
	}
	return err
}
