// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// V levels of library records from slog and log. Helm logs every step at Debug, and returns its errors to the caller.
// Its records are therefore shown only at a higher verbosity.
const (
	libraryInfoVerbosity  = 2
	libraryDebugVerbosity = 5
)

// setupLogging directs all logs to one handler: klog (this project and client-go), slog (Helm) and log (hooks of Helm).
// It changes process-wide state. Call it once, before the first log line.
func setupLogging(w io.Writer, format string, verbosity int) {
	handler := newLogHandler(w, format, verbosity)

	klogFlags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(klogFlags)
	// Set cannot fail: klog defines the flag, and the value is a number.
	_ = klogFlags.Set("v", strconv.Itoa(verbosity))
	klog.SetLoggerWithOptions(logr.FromSlogHandler(handler), klog.ContextualLogger(true))

	// SetDefault also redirects package log, at this level.
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(slog.New(libraryHandler{handler}))
}

// newLogHandler returns a handler that shows V levels up to verbosity. logr maps V(n) to the slog level -n.
func newLogHandler(w io.Writer, format string, verbosity int) slog.Handler {
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity), ReplaceAttr: readable}
	if format == LoggingFormatJSON {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

// readable writes levels up to V(3) as INFO and higher levels as DEBUG. slog would write V(1) as "DEBUG+3", which log
// stores do not recognize. readable also writes durations as 1m30s; JSON would contain nanoseconds.
func readable(groups []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() == slog.KindDuration {
		return slog.String(attr.Key, attr.Value.Duration().String())
	}
	level, ok := attr.Value.Any().(slog.Level)
	if len(groups) > 0 || attr.Key != slog.LevelKey || !ok {
		return attr
	}
	switch {
	case level <= slog.LevelDebug:
		return slog.String(attr.Key, slog.LevelDebug.String())
	case level < slog.LevelWarn:
		return slog.String(attr.Key, slog.LevelInfo.String())
	default:
		return attr
	}
}

// libraryHandler maps Info and Debug records of libraries to the V levels above. Warnings and errors are not changed.
type libraryHandler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h libraryHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, libraryLevel(level))
}

// Handle implements slog.Handler.
func (h libraryHandler) Handle(ctx context.Context, record slog.Record) error {
	record.Level = libraryLevel(record.Level)
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.Handler.WithGroup(name)}
}

func libraryLevel(level slog.Level) slog.Level {
	switch {
	case level >= slog.LevelWarn:
		return level
	case level >= slog.LevelInfo:
		return slog.Level(-libraryInfoVerbosity)
	default:
		return slog.Level(-libraryDebugVerbosity)
	}
}
