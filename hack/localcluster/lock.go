// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// errLocked is returned for a lock that another process holds.
var errLocked = errors.New("locked by another process")

// pollInterval is the time between two evaluations of a condition without an event.
const pollInterval = 50 * time.Millisecond

// fileLock is an exclusive lock that the kernel releases when the process ends.
type fileLock struct {
	file *os.File
}

// tryLock takes the lock on path, creating the file, or returns errLocked.
func tryLock(path string) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = file.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, errLocked
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if isSameFile(file, path) {
			return &fileLock{file: file}, nil
		}
		// The previous holder removed the file between the open and the lock, so this lock protects
		// nothing.
		_ = file.Close()
	}
}

// waitLock takes the lock on path as soon as it is free. It calls onWait once before it waits.
func waitLock(ctx context.Context, path string, onWait func()) (*fileLock, error) {
	var lock *fileLock
	waited := false
	err := poll(ctx, func(context.Context) (bool, error) {
		var err error
		lock, err = tryLock(path)
		if !errors.Is(err, errLocked) {
			return err == nil, err
		}
		if !waited && onWait != nil {
			onWait()
		}
		waited = true
		return false, nil
	})
	return lock, err
}

// write replaces the content of the lock's file.
func (l *fileLock) write(content []byte) error {
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if _, err := l.file.WriteAt(content, 0); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// release releases the lock and leaves its file. A failure does not matter, since the lock ends
// with the process.
func (l *fileLock) release() {
	_ = l.file.Close()
}

// remove releases the lock and removes its file. A remaining file does no harm.
func (l *fileLock) remove() {
	_ = os.Remove(l.file.Name())
	l.release()
}

func isSameFile(file *os.File, path string) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	current, err := os.Stat(path)
	return err == nil && os.SameFile(held, current)
}

// poll calls done until done returns true or an error. When ctx ends first, poll returns its cause.
func poll(ctx context.Context, done func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
