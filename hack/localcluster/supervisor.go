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
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// detachCommand on the lifeline makes a supervisor independent of the lifeline.
const detachCommand = "detach"

// lockPatience is how long a supervisor waits for a command that only tests the lock.
const lockPatience = 2 * time.Second

// maxAttempts bounds how often a start is repeated because another process took a port between its
// choice and the start.
const maxAttempts = 3

// errLifelineClosed is the cause of a stop that began with the end of the lifeline.
var errLifelineClosed = errors.New("stdin was closed")

// supervisor starts one instance, watches it and ends it.
type supervisor struct {
	layout   layout
	instance instance
	// programs are the folders of the programs. The first has the programs of Kubernetes.
	programs []string
	// version is the version of Kubernetes, such as v1.33.13, and minor its minor version.
	version string
	minor   int
	audit   bool
	nodes   int
	// node is the node that runs containers; nil without.
	node *realNode
	// timeout bounds the start, from the first process to the last node.
	timeout  time.Duration
	messages io.Writer
}

// run starts the instance, prints its connection to ready, and ends the instance when ctx ends. It
// fails if the instance does not start, or if a component ends by itself. No process is left when
// run returns.
func (s *supervisor) run(ctx context.Context, ready io.Writer) (err error) {
	// A closed stdout must not kill the supervisor before its clean-up. The write fails instead.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	lock, err := s.takeOver(ctx)
	if err != nil {
		return err
	}
	defer lock.remove()

	for attempt := 1; ; attempt++ {
		err = s.attempt(ctx, ready)
		var exit *exitError
		if attempt < maxAttempts && errors.As(err, &exit) && exit.portTaken && ctx.Err() == nil {
			fmt.Fprintf(s.messages, "%s lost a race for its port; starting over\n", exit.component)
			continue
		}
		break
	}
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, s.instance.forget())
	}
	failed := state{Phase: phaseFailed, Failure: err.Error()}
	return errors.Join(err, s.instance.keepOnlyLogs(), writeState(s.instance, failed))
}

// takeOver takes the instance's lock and removes the remains of a predecessor.
func (s *supervisor) takeOver(ctx context.Context) (*fileLock, error) {
	inst := s.instance
	patience, cancel := context.WithTimeoutCause(ctx, lockPatience, fmt.Errorf("instance %q is in use", inst.name))
	defer cancel()
	lock, err := waitLock(patience, inst.lockFile(), nil)
	if err != nil {
		return nil, err
	}
	self, err := identify("supervisor", os.Getpid())
	if err == nil {
		var content []byte
		if content, err = json.Marshal(self); err == nil {
			err = lock.write(content)
		}
	}
	if err = errors.Join(err, sweepEphemeral(s.layout), removeLeftovers(inst)); err != nil {
		lock.remove()
		return nil, err
	}
	return lock, nil
}

// restarted maps a signal to the component that it restarts.
var restarted = map[os.Signal]string{syscall.SIGUSR1: apiServerName, syscall.SIGUSR2: etcdName}

// attempt starts the instance once and returns when it has ended: nil if it was ready and was then
// asked to end.
func (s *supervisor) attempt(ctx context.Context, ready io.Writer) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fleet, err := newFleet(s.instance, s.programs, cancel)
	if err != nil {
		return err
	}
	defer func() {
		if s.node != nil {
			err = errors.Join(err, s.node.leave())
		}
		err = errors.Join(err, fleet.stop())
		if s.node != nil {
			err = errors.Join(err, removeCgroups(s.instance.cgroup()))
		}
	}()

	conn, err := s.start(ctx, fleet)
	if err != nil {
		return fmt.Errorf("start instance %q: %w", s.instance.name, err)
	}
	restarts := make(chan os.Signal, 1)
	signal.Notify(restarts, slices.Collect(maps.Keys(restarted))...)
	defer signal.Stop(restarts)
	if err := json.NewEncoder(ready).Encode(conn); err != nil {
		return fmt.Errorf("report ready: %w", err)
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case sig := <-restarts:
			if err := fleet.restart(ctx, restarted[sig]); err != nil {
				return err
			}
		}
	}
	var exit *exitError
	if errors.As(context.Cause(ctx), &exit) {
		return exit
	}
	fmt.Fprintf(s.messages, "stopping instance %q: %v\n", s.instance.name, context.Cause(ctx))
	return nil
}

// start starts the components in order. It waits for a component only if the next one would fail
// without it.
func (s *supervisor) start(ctx context.Context, fleet *fleet) (connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("not ready after %s", s.timeout))
	defer cancel()
	inst := s.instance
	p, err := pickPorts(ctx)
	if err != nil {
		return connection{}, err
	}
	outside := p.server()
	if s.node != nil {
		if err := s.node.prepare(ctx, fleet, p.apiServer); err != nil {
			return connection{}, err
		}
		p.apiServer = realAPIServerPort
	}
	files, err := configFiles()
	if err != nil {
		return connection{}, err
	}
	if err := writeFiles(inst.config(""), files); err != nil {
		return connection{}, err
	}
	creds, err := writeCredentials(inst, p.server(), outside, time.Now())
	if err != nil {
		return connection{}, err
	}

	server := apiServer(inst, p, serverOptions{minor: s.minor, audit: s.audit, realNode: s.node != nil})
	if err := fleet.launch(ctx, etcd(inst, p), server); err != nil {
		return connection{}, err
	}
	api := newClient(outside, creds.ca, creds.certificate)
	if s.node != nil {
		if err := s.node.start(ctx, fleet, api); err != nil {
			return connection{}, err
		}
	} else {
		defer api.close()
	}
	if err := fleet.await(ctx, "API server", server.name, api.ready); err != nil {
		return connection{}, err
	}
	if err := s.startClients(ctx, fleet, api); err != nil {
		return connection{}, err
	}
	conn := s.connection(outside)
	return conn, fleet.becomeReady(conn)
}

// startClients starts the components that use the API server, and waits until pods can run.
func (s *supervisor) startClients(ctx context.Context, fleet *fleet, api *client) error {
	inst := s.instance
	manager, player := controllerManager(inst, s.minor), kwok(inst, s.node != nil)
	components := []component{manager, scheduler(inst), player}
	want := s.nodes
	if s.node != nil {
		want++
		player = component{name: kubeletName} // The last to become ready.
	}
	if s.node != nil && s.nodes == 0 {
		components = components[:2] // There is nothing to play.
	}
	if err := fleet.launch(ctx, components...); err != nil {
		return err
	}
	if err := api.createNodes(ctx, s.nodes); err != nil {
		return err
	}
	if err := fleet.await(ctx, "default namespace", manager.name, api.namespaceReady); err != nil {
		return err
	}
	nodesReady := func(ctx context.Context) error { return api.nodesReady(ctx, want) }
	return fleet.await(ctx, "nodes", player.name, nodesReady)
}

func (s *supervisor) connection(server string) connection {
	inst := s.instance
	conn := connection{
		Name:       inst.name,
		Dir:        inst.dir,
		Server:     server,
		Kubeconfig: inst.kubeconfig(),
		CAFile:     inst.pki("ca.crt"),
		Version:    s.version,
		BinDir:     s.programs[0],
		LogDir:     inst.logs(),
		Nodes:      s.nodes,
		PID:        os.Getpid(),
	}
	if s.node != nil {
		conn.Containerd = inst.containerd()
	}
	if s.audit {
		conn.AuditLog = inst.auditLog()
	}
	return conn
}

// watchLifeline calls lost when the lifeline ends before it says that it may.
func watchLifeline(lifeline io.Reader, lost func()) {
	lines := bufio.NewScanner(lifeline)
	for lines.Scan() {
		if lines.Text() == detachCommand {
			return
		}
	}
	lost()
}

// removeLeftovers ends the components and removes the files of an instance whose supervisor has
// ended. The caller holds the instance's lock. On Linux, no component outlives its supervisor;
// other systems need this.
func removeLeftovers(inst instance) error {
	s, err := readState(inst)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, component := range s.Components {
		if err := component.signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	return errors.Join(removeCgroups(inst.cgroup()), inst.removeFiles())
}

// sweepEphemeral removes the remains of unnamed instances whose supervisor was killed.
func sweepEphemeral(l layout) error {
	dirs, err := filepath.Glob(filepath.Join(l.clusters(), ephemeralPrefix+"*"))
	if err != nil {
		return fmt.Errorf("look for remains: %w", err)
	}
	for _, dir := range dirs {
		inst, err := l.instance(filepath.Base(dir))
		if err != nil || !isDir(dir) {
			continue
		}
		lock, err := tryLock(inst.lockFile())
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return err
		}
		err = removeLeftovers(inst)
		lock.remove()
		if err != nil {
			return err
		}
	}
	return nil
}
