// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"context"
	"log/slog"
)

// quietHandler logs all messages at debug level.
type quietHandler struct {
	slog.Handler
}

// Enabled implements slog.Handler.
func (h quietHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (h quietHandler) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}

// logWriter logs the output of hooks.
type logWriter struct {
	logger *slog.Logger
}

// Write implements io.Writer.
func (w *logWriter) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		w.logger.Info("Hook output", slog.String("line", string(bytes.TrimRight(line, "\n"))))
	}
	return len(p), nil
}
