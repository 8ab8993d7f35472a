// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultName    = "default"
	defaultNodes   = 2
	maxNodes       = 100
	defaultTimeout = 2 * time.Minute
)

// stopPatience is how long a supervisor may take to end before it is killed; longer than its components' graces.
const stopPatience = 15 * time.Second

// newCommand returns the command line.
func newCommand() *cobra.Command {
	var cache, name string
	root := &cobra.Command{
		Use:               "localcluster",
		Short:             "Run a real Kubernetes control plane on this machine, built from source.",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().StringVar(&cache, "cache", os.Getenv(cacheVariable),
		"folder for binaries and instances; default $"+cacheVariable+", else in the user's cache folder")
	named := func(cmd *cobra.Command) *cobra.Command {
		cmd.Args = cobra.NoArgs
		cmd.Flags().StringVar(&name, "name", defaultName, "the instance; several run side by side")
		return cmd
	}
	find := func() (instance, error) {
		l, err := newLayout(cache)
		if err != nil {
			return instance{}, err
		}
		return l.instance(name)
	}

	root.AddCommand(
		named(newUpCommand(&cache, &name)),
		named(&cobra.Command{
			Use:   "down",
			Short: "End an instance and remove its data",
			RunE: func(cmd *cobra.Command, _ []string) error {
				inst, err := find()
				if err != nil {
					return err
				}
				return down(cmd.Context(), inst, cmd.OutOrStdout())
			},
		}),
		named(&cobra.Command{
			Use:   "kubeconfig",
			Short: "Print the path of an instance's kubeconfig file",
			RunE: func(cmd *cobra.Command, _ []string) error {
				inst, err := find()
				if err != nil {
					return err
				}
				s, err := readState(inst)
				if err != nil || s.Phase != phaseReady {
					return fmt.Errorf("instance %q is not up", inst.name)
				}
				fmt.Fprintln(cmd.OutOrStdout(), s.Connection.Kubeconfig)
				return nil
			},
		}),
		newBuildCommand(&cache),
	)
	return root
}

func newBuildCommand(cache *string) *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the binaries if they are missing, and print their folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(*cache)
			if err != nil {
				return err
			}
			dir, err := builder{layout: l, progress: cmd.ErrOrStderr()}.ensure(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
}

func newUpCommand(cache, name *string) *cobra.Command {
	u := up{}
	var foreground bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start an instance, building what is missing",
		Long: `Start an instance, building what is missing, and return when pods can run on it.

With --foreground the command stays: it prints one line of JSON when the instance is ready, and ends the instance when
its stdin is closed or a signal arrives. Without --name such an instance gets a name of its own.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(*cache)
			if err != nil {
				return err
			}
			if foreground && !cmd.Flags().Changed("name") {
				*name = fmt.Sprintf("%s%d-%s", ephemeralPrefix, os.Getpid(), strings.ToLower(rand.Text()[:6]))
			}
			inst, err := l.instance(*name)
			if err != nil {
				return err
			}
			u.layout, u.instance, u.stdout, u.stderr = l, inst, cmd.OutOrStdout(), cmd.ErrOrStderr()
			if u.nodes < 0 || u.nodes > maxNodes {
				return fmt.Errorf("--nodes=%d: want 0 to %d", u.nodes, maxNodes)
			}
			u.nodesGiven = cmd.Flags().Changed("nodes")
			if foreground {
				return u.supervise(cmd.Context(), cmd.InOrStdin())
			}
			return u.ensure(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&foreground, "foreground", false, "stay, and end the instance when stdin is closed")
	cmd.Flags().BoolVar(&u.audit, "audit", false, "write an audit log of every request")
	cmd.Flags().IntVar(&u.nodes, "nodes", defaultNodes, "how many nodes to simulate")
	cmd.Flags().DurationVar(&u.timeout, "timeout", defaultTimeout, "how long the start may take, the build not counted")
	return cmd
}

// up is the command that starts an instance.
type up struct {
	layout         layout
	instance       instance
	audit          bool
	nodes          int
	nodesGiven     bool
	timeout        time.Duration
	stdout, stderr io.Writer
}

// supervise builds, then runs the instance in this process, until the lifeline ends.
func (u *up) supervise(ctx context.Context, lifeline io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// This goroutine cannot be waited for: nothing interrupts a read from stdin but the end of the process.
	go watchLifeline(lifeline, func() { cancel(errLifelineClosed) })
	binDir, err := builder{layout: u.layout, progress: u.stderr}.ensure(ctx)
	if err != nil {
		return err
	}
	s := &supervisor{
		layout:   u.layout,
		instance: u.instance,
		binDir:   binDir,
		audit:    u.audit,
		nodes:    u.nodes,
		timeout:  u.timeout,
		messages: u.stderr,
	}
	return s.run(ctx, u.stdout)
}

// ensure makes sure that the instance runs, in a supervisor of its own.
func (u *up) ensure(ctx context.Context) error {
	// Of several that ask for the same instance at once, one starts it and the others find it running.
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
	if _, err := (builder{layout: u.layout, progress: u.stderr}).ensure(ctx); err != nil {
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

// running returns how to reach the instance if it runs and is healthy, and nil if it can be started. It waits for a
// supervisor that is starting it, and ends an instance that runs but does not answer.
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

// matches returns an error when the running instance is not what was asked for.
func (u *up) matches(conn connection) error {
	if u.audit && conn.AuditLog == "" || u.nodesGiven && u.nodes != conn.Nodes {
		return fmt.Errorf("instance %q is up already with other options (%d nodes, audit log: %t); run down first",
			conn.Name, conn.Nodes, conn.AuditLog != "")
	}
	return nil
}

func (u *up) print(conn connection) {
	fmt.Fprintf(u.stdout, "server:     %s\nnodes:      %d\n", conn.Server, conn.Nodes)
	if conn.AuditLog != "" {
		fmt.Fprintf(u.stdout, "audit log:  %s\n", conn.AuditLog)
	}
	fmt.Fprintf(u.stdout, "logs:       %s\nkubectl:    %s/kubectl\n", conn.LogDir, conn.BinDir)
	fmt.Fprintf(u.stdout, "export KUBECONFIG=%s\n", conn.Kubeconfig)
}

// detach starts a supervisor that outlives this process once the instance is ready, and not if it is not.
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
	// Not ended with ctx, which would leave it no time to clean up.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, "up", "--foreground", "--cache", u.layout.cache, "--name", u.instance.name,
		fmt.Sprintf("--audit=%t", u.audit), fmt.Sprintf("--nodes=%d", u.nodes), fmt.Sprintf("--timeout=%s", u.timeout))
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
	// Everybody may ask this, so no client certificate is needed.
	api := newClient(conn.Server, ca)
	defer api.close()
	return api.ready(ctx)
}

// down ends an instance and removes what it left.
func down(ctx context.Context, inst instance, messages io.Writer) error {
	message := "instance %q was not up\n"
	lock, err := tryLock(inst.lockFile())
	if errors.Is(err, errLocked) {
		message = "instance %q is down\n"
		lock, err = stopSupervisor(ctx, inst)
	}
	if err != nil {
		return err
	}
	defer lock.remove()
	if err := errors.Join(removeLeftovers(inst), inst.forget()); err != nil {
		return err
	}
	fmt.Fprintf(messages, message, inst.name)
	return nil
}

// stopSupervisor ends the supervisor that holds the instance's lock and returns the lock. A supervisor that does not
// react is killed; on Linux its components die with it, elsewhere removeLeftovers ends them.
func stopSupervisor(ctx context.Context, inst instance) (*fileLock, error) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if holder, err := lockHolder(inst); err == nil {
			if err := holder.signal(sig); err != nil {
				return nil, err
			}
		}
		patience, cancel := context.WithTimeout(ctx, stopPatience)
		lock, err := waitLock(patience, inst.lockFile(), nil)
		cancel()
		if err == nil {
			return lock, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for instance %q to end: %w", inst.name, context.Cause(ctx))
		}
	}
	return nil, fmt.Errorf("instance %q is in use by a process that does not end", inst.name)
}

// lockHolder returns the process that holds the instance's lock. It fails in the moment between a supervisor's taking
// the lock and its writing down who it is.
func lockHolder(inst instance) (identity, error) {
	content, err := os.ReadFile(inst.lockFile())
	if err != nil {
		return identity{}, fmt.Errorf("read lock: %w", err)
	}
	var holder identity
	if err := json.Unmarshal(content, &holder); err != nil {
		return identity{}, fmt.Errorf("read lock: %w", err)
	}
	return holder, nil
}
