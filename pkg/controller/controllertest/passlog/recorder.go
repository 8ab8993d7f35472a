// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package passlog

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// verbosity is the highest level of the operator.
const verbosity = 7

// Recorder keeps a log in memory. It may be used concurrently. The zero value is empty.
type Recorder struct {
	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer.
func (r *Recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// String returns the log so far.
func (r *Recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// Context returns a context whose logger writes all levels to the recorder, as JSON.
func (r *Recorder) Context(ctx context.Context) context.Context {
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity)}
	return klog.NewContext(ctx, logr.FromSlogHandler(slog.NewJSONHandler(r, options)))
}

// Check fails the test if a line lacks a field, see [Problems].
func (r *Recorder) Check(t testing.TB) {
	t.Helper()
	problems, _ := Problems(r.String())
	for _, problem := range problems {
		t.Errorf("log: %s", problem)
	}
}
