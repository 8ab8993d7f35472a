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
	"syscall"
	"time"
)

// stopPatience is the time after which a supervisor is killed. It is longer than the grace of its
// components.
const stopPatience = 15 * time.Second

// down ends an instance and removes its files.
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

// stopSupervisor ends the supervisor that holds the instance's lock, and returns the lock. A
// supervisor that does not react is killed. Its components then die with it on Linux; elsewhere
// removeLeftovers ends them.
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

// lockHolder returns the process that holds the instance's lock. It fails between the moment in
// which a supervisor takes the lock and that in which it writes its identity.
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
