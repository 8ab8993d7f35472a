// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a component may take to end after SIGTERM. A kill after that loses nothing.
const stopGrace = 3 * time.Second

// Limits of the part of a log in an error.
const (
	tailLines = 15
	tailBytes = 8 << 10
)

// exitError says that a component ended without being asked to.
type exitError struct {
	component string
	err       error
	portTaken bool
	log       string
	tail      string
}

// Error implements error.
func (e *exitError) Error() string {
	how := "exit status 0"
	if e.err != nil {
		how = e.err.Error()
	}
	return fmt.Sprintf("%s ended by itself (%s); the end of %s:\n%s", e.component, how, e.log, e.tail)
}

// Unwrap returns how the process ended.
func (e *exitError) Unwrap() error { return e.err }

// fleet is the running components of one instance.
type fleet struct {
	instance instance
	// programs are the folders of the programs.
	programs []string
	// lost is called when a component ends by itself.
	lost     context.CancelCauseFunc
	launcher *launcher
	watchers sync.WaitGroup
	// children are in the order of their start.
	children []*child
	state    state
}

func newFleet(inst instance, programs []string, lost context.CancelCauseFunc) (*fleet, error) {
	if err := inst.removeFiles(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(inst.logs(), 0o700); err != nil {
		return nil, fmt.Errorf("create instance: %w", err)
	}
	return &fleet{
		instance: inst,
		programs: programs,
		lost:     lost,
		launcher: newLauncher(),
		state:    state{Phase: phaseStarting},
	}, nil
}

// launch starts components and records them in the state file. They live until stop, even if ctx
// ends.
func (f *fleet) launch(ctx context.Context, components ...component) error {
	for _, c := range components {
		started, err := f.launchOne(context.WithoutCancel(ctx), c)
		if err != nil {
			return err
		}
		f.children = append(f.children, started)
		f.state.Components = append(f.state.Components, started.identity)
	}
	return writeState(f.instance, f.state)
}

// restart ends a component and starts it again with the same arguments.
func (f *fleet) restart(ctx context.Context, name string) error {
	i := slices.IndexFunc(f.children, func(c *child) bool { return c.Name == name })
	if i < 0 {
		return fmt.Errorf("restart %s: it does not run", name)
	}
	old := f.children[i]
	old.replaced.Store(true)
	if err := endAll([]*child{old}); err != nil {
		return err
	}
	started, err := f.launchOne(context.WithoutCancel(ctx), old.component)
	if err != nil {
		return err
	}
	f.children[i], f.state.Components[i] = started, started.identity
	return writeState(f.instance, f.state)
}

// findProgram returns the path of the program in the first folder that has it, and else its name.
func findProgram(dirs []string, name string) string {
	for _, dir := range dirs {
		if path := filepath.Join(dir, name); isFile(path) {
			return path
		}
	}
	return name
}

func (f *fleet) launchOne(ctx context.Context, c component) (*child, error) {
	output, err := os.OpenFile(f.instance.log(c.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", c.name, err)
	}
	defer output.Close()
	started, err := f.launcher.launch(ctx, c, cmp.Or(c.path, findProgram(f.programs, c.name)), output)
	if err != nil {
		return nil, err
	}
	f.watchers.Go(func() {
		<-started.done
		if started.replaced.Load() {
			return
		}
		log := f.instance.log(c.name)
		taken := func(port int) bool { return isTaken(ctx, port) }
		f.lost(&exitError{
			component: c.name,
			err:       started.err,
			portTaken: slices.ContainsFunc(c.ports, taken),
			log:       log,
			tail:      tail(log),
		})
	})
	return started, nil
}

// await waits until check returns nil. Its error has the last error of check, and the end of the
// log of the component that most likely shows the cause.
func (f *fleet) await(ctx context.Context, what, component string, check func(context.Context) error) error {
	var complaint error
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() == nil {
			complaint = err
		}
		return err == nil, nil
	})
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	log := f.instance.log(component)
	return fmt.Errorf("%s: %w: %w; the end of %s:\n%s", what, err, complaint, log, tail(log))
}

// becomeReady records that the instance is ready.
func (f *fleet) becomeReady(conn connection) error {
	f.state.Phase, f.state.Connection = phaseReady, conn
	return writeState(f.instance, f.state)
}

// stop ends all components, in the reverse order of their start, and waits for their end.
func (f *fleet) stop() error {
	var errs []error
	// etcd and the API server serve the other components, which therefore end first, all together.
	const servers = 2
	clients := f.children[min(servers, len(f.children)):]
	errs = append(errs, endAll(clients))
	for _, c := range slices.Backward(f.children[:min(servers, len(f.children))]) {
		errs = append(errs, endAll([]*child{c}))
	}
	f.watchers.Wait()
	f.launcher.close()
	return errors.Join(errs...)
}

// endAll ends children together: with SIGTERM, and after stopGrace with SIGKILL.
func endAll(children []*child) error {
	var errs []error
	for _, c := range children {
		errs = append(errs, c.signal(syscall.SIGTERM))
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	for _, c := range children {
		select {
		case <-c.done:
		case <-grace.C:
			for _, late := range children {
				errs = append(errs, late.signal(syscall.SIGKILL))
			}
			<-c.done
		}
	}
	return errors.Join(errs...)
}

// tail returns the last lines of a file, or the reason why it cannot be read.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}
