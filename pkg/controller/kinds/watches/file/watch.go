// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// DefaultInterval is the default of [Watcher.Interval].
const DefaultInterval = 5 * time.Second

// Watcher reads a file, and reads it again when its content changes. The content is read at an
// interval, because the kubelet replaces a file of a ConfigMap by the swap of a symbolic link in a
// parent directory, of which a watch of the file is not notified. Nothing is parsed while the
// content is the same. A Watcher is not safe for concurrent use.
type Watcher struct {
	// Path is the path of the file. Its last element is the name of the file in errors.
	Path string
	// Env is the environment of overrideValues, such as [os.LookupEnv].
	Env func(string) (string, bool)
	// Interval is how often the file is read; 0 means DefaultInterval.
	Interval time.Duration
	// Clock is the clock of the interval.
	Clock clock.WithTicker

	// reported is the version that the caller knows. pending is the version that the last reading
	// found.
	reported, pending version
}

// version identifies a content of the file, or an error of reading it.
type version [sha256.Size]byte

// Load reads and parses the file. Entries and errors are the same as for [Parse].
func (w *Watcher) Load() ([]Entry, error) {
	data, read, err := w.read()
	w.reported, w.pending = read, read
	if err != nil {
		return nil, err
	}
	return Parse(w.name(), data, w.Env)
}

// Run calls changed with the entries, or with the error, of each version of the file after the
// version of [Watcher.Load], until the context is done. Run calls changed once for each version,
// also for an invalid version, and for a file that cannot be read. It waits until two readings in a
// row have found the same version, because a file can be read while it is written. Load must have
// been called before.
func (w *Watcher) Run(ctx context.Context, changed func([]Entry, error)) {
	interval := w.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	ticker := w.Clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			w.poll(changed)
		}
	}
}

// poll reads the file, and reports its version if it is new and stable.
func (w *Watcher) poll(changed func([]Entry, error)) {
	data, read, err := w.read()
	stable := read == w.pending
	w.pending = read
	if !stable || read == w.reported {
		return
	}
	w.reported = read
	if err != nil {
		changed(nil, err)
		return
	}
	entries, err := Parse(w.name(), data, w.Env)
	if err != nil {
		entries = nil // The old version stays, so that no part of a broken one is used.
	}
	changed(entries, err)
}

// read returns the content of the file and its version. A content beyond MaxBytes is cut after the
// limit, so that it remains too long.
func (w *Watcher) read() ([]byte, version, error) {
	data, err := w.content()
	if err != nil {
		err = &Error{File: w.name(), Err: fmt.Errorf("cannot be read: %w", err)}
		return nil, sha256.Sum256([]byte(err.Error())), err
	}
	return data, sha256.Sum256(data), nil
}

func (w *Watcher) content() ([]byte, error) {
	file, err := os.Open(w.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, MaxBytes+1))
}

func (w *Watcher) name() string { return filepath.Base(w.Path) }
