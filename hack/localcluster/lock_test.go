// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "lock")
	first, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(path); !errors.Is(err, errLocked) {
		t.Errorf("second lock: %v, want %v", err, errLocked)
	}
	first.release()
	second, err := tryLock(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	second.remove()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file after remove: %v", err)
	}
}

func TestLockOnRemovedFileIsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.release()
	if !isSameFile(held.file, path) {
		t.Error("a file differs from itself")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if isSameFile(held.file, path) {
		t.Error("a removed file counts as the lock")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if isSameFile(held.file, path) {
		t.Error("a new file of the same name counts as the old one")
	}
}

func TestWaitLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holder, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}

	cause := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := waitLock(ctx, path, func() { cancel(cause) }); !errors.Is(err, cause) {
		t.Errorf("impatient: %v, want %v", err, cause)
	}

	waits := 0
	lock, err := waitLock(t.Context(), path, func() {
		waits++
		holder.release()
	})
	if err != nil || waits != 1 {
		t.Fatalf("patient: %v after %d waits", err, waits)
	}
	lock.remove()
}

func TestLockContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.remove()
	for _, want := range []string{"something long", "short"} {
		if err := lock.write([]byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}
