// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
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
)

// up is the command that starts an instance.
type up struct {
	layout     layout
	instance   instance
	audit      bool
	nodes      int
	nodesGiven bool
	// node is "real" if a node runs containers, whose images are archives.
	node   string
	images []string
	// version is the minor version of Kubernetes that was asked for. kubernetes are the programs of that version.
	version        string
	kubernetes     programSet
	timeout        time.Duration
	stdout, stderr io.Writer
}

// supervise builds the binaries, and runs the instance in this process until the lifeline ends.
func (u *up) supervise(ctx context.Context, lifeline io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Nothing waits for this goroutine, since only the end of the process interrupts a read from
	// stdin.
	go watchLifeline(lifeline, func() { cancel(errLifelineClosed) })
	programs, node, err := u.build(ctx)
	if err != nil {
		return err
	}
	version, err := u.kubernetes.version()
	if err != nil {
		return err
	}
	minor, err := u.kubernetes.minor()
	if err != nil {
		return err
	}
	s := &supervisor{
		node: node, version: version, minor: minor,
		layout: u.layout, instance: u.instance, programs: programs, audit: u.audit, nodes: u.nodes, timeout: u.timeout, messages: u.stderr,
	}
	return s.run(ctx, u.stdout)
}

// real reports whether a node runs containers.
func (u *up) real() bool { return u.node == "real" }

// build builds the programs, and returns their folders and the real node, if any. The first folder has the programs of Kubernetes.
func (u *up) build(ctx context.Context) ([]string, *realNode, error) {
	programs, err := u.ensurePrograms(ctx, u.kubernetes, surroundings)
	if err != nil || !u.real() {
		return programs, nil, err
	}
	ofNode, err := u.ensurePrograms(ctx, nodePrograms, coreDNS)
	if err != nil {
		return nil, nil, err
	}
	images, err := imageStore{dir: u.layout.images(), progress: u.stderr}.ensure(ctx)
	if err != nil {
		return nil, nil, err
	}
	return programs, &realNode{instance: u.instance, programs: ofNode, images: append(images, u.images...)}, nil
}

// ensurePrograms returns the folders of the sets. It builds the missing ones.
func (u *up) ensurePrograms(ctx context.Context, sets ...programSet) ([]string, error) {
	var dirs []string
	for _, set := range sets {
		dir, err := builder{set: set, layout: u.layout, progress: u.stderr}.ensure(ctx)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// ensure ensures that the instance runs, with a supervisor in a process of its own.
func (u *up) ensure(ctx context.Context) error {
	// Of several commands for the same instance, the first starts it, and the rest find it running.
	turn, err := waitLock(ctx, u.instance.commandLock(), func() {
		fmt.Fprintf(u.stderr, "waiting for another command that starts instance %q\n", u.instance.name)
	})
	if err != nil {
		return err
	}
	defer turn.remove()
	conn, err := u.running(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		if err := u.matches(*conn); err != nil {
			return err
		}
		fmt.Fprintf(u.stdout, "instance %q is up already\n", conn.Name)
		u.print(*conn)
		return nil
	}
	if _, _, err := u.build(ctx); err != nil {
		return err
	}
	begin := time.Now()
	conn, err = u.detach(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(u.stdout, "instance %q is up after %.1f s\n", conn.Name, time.Since(begin).Seconds())
	u.print(*conn)
	return nil
}

// running returns the connection of a healthy instance, and nil if the instance can be started. It
// waits for a supervisor that is starting the instance, and ends an instance that does not answer.
func (u *up) running(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, u.timeout,
		fmt.Errorf("instance %q is being started by another process, which takes long", u.instance.name))
	defer cancel()
	var found *connection
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		lock, err := tryLock(u.instance.lockFile())
		if err == nil {
			lock.remove()
			return true, nil
		}
		if !errors.Is(err, errLocked) {
			return false, err
		}
		s, err := readState(u.instance)
		if errors.Is(err, os.ErrNotExist) || err == nil && s.Phase != phaseReady {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := checkHealth(ctx, s.Connection); err != nil {
			fmt.Fprintf(u.stderr, "instance %q does not answer and is replaced: %v\n", u.instance.name, err)
			return true, down(ctx, u.instance, u.stderr)
		}
		found = &s.Connection
		return true, nil
	})
	return found, err
}

// matches returns an error if the running instance does not have the requested options.
func (u *up) matches(conn connection) error {
	otherVersion := u.version != "" && !strings.HasPrefix(conn.Version, "v"+u.version+".")
	if u.audit && conn.AuditLog == "" || u.nodesGiven && u.nodes != conn.Nodes || u.real() != (conn.Containerd != "") || otherVersion {
		return fmt.Errorf("instance %q is up already with other options (Kubernetes %s, %d simulated nodes, real node: %t, audit log: %t); run down first",
			conn.Name, conn.Version, conn.Nodes, conn.Containerd != "", conn.AuditLog != "")
	}
	return nil
}

func (u *up) print(conn connection) {
	fmt.Fprintf(u.stdout, "server:     %s\nkubernetes: %s\nnodes:      %d\n", conn.Server, conn.Version, conn.Nodes)
	if conn.AuditLog != "" {
		fmt.Fprintf(u.stdout, "audit log:  %s\n", conn.AuditLog)
	}
	if conn.Containerd != "" {
		fmt.Fprintf(u.stdout, "containerd: %s\n", conn.Containerd)
	}
	fmt.Fprintf(u.stdout, "logs:       %s\nkubectl:    %s/kubectl\n", conn.LogDir, conn.BinDir)
	fmt.Fprintf(u.stdout, "export KUBECONFIG=%s\n", conn.Kubeconfig)
}

// detach starts a supervisor that outlives this process, if the instance becomes ready.
func (u *up) detach(ctx context.Context) (*connection, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	logFile, err := os.OpenFile(u.instance.supervisorLog(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("supervisor's log: %w", err)
	}
	defer logFile.Close()
	// The end of ctx must not kill the supervisor, which could then not clean up.
	args := []string{
		"up", "--foreground", "--cache", u.layout.cache, "--name", u.instance.name, fmt.Sprintf("--audit=%t", u.audit),
		fmt.Sprintf("--nodes=%d", u.nodes), "--node=" + u.node, "--kubernetes=" + u.version, fmt.Sprintf("--timeout=%s", u.timeout),
	}
	for _, image := range u.images {
		args = append(args, "--image="+image)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = logFile
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}

	// An interrupt closes the lifeline; the supervisor then cleans up, and its stdout ends.
	stop := context.AfterFunc(ctx, func() { _ = lifeline.Close() })
	line, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	if stop() && readErr == nil {
		var conn connection
		if err := json.Unmarshal(line, &conn); err != nil {
			return nil, fmt.Errorf("read the supervisor's report: %w", err)
		}
		if _, err := fmt.Fprintln(lifeline, detachCommand); err != nil {
			return nil, fmt.Errorf("detach the supervisor: %w", err)
		}
		return &conn, nil
	}
	_ = lifeline.Close()
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return nil, fmt.Errorf("instance %q did not come up (%w):\n%s", u.instance.name, waitErr, tail(u.instance.supervisorLog()))
}

// checkHealth returns nil when the API server of a running instance answers that it is ready.
func checkHealth(ctx context.Context, conn connection) error {
	ca, err := os.ReadFile(conn.CAFile)
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	// This request needs no client certificate, since /readyz is public.
	api := newClient(conn.Server, ca)
	defer api.close()
	return api.ready(ctx)
}
