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

// Levels at which what libraries log through slog or log is shown. Helm tells every step at Debug and leaves the
// judgment of errors to its caller, so its chatter stays out of the log unless it is asked for.
const (
	libraryInfoVerbosity  = 2
	libraryDebugVerbosity = 5
)

// setupLogging makes one handler the sink of all logs: klog (our own lines and client-go's), slog (Helm's) and log
// (Helm's hooks). It changes process-wide state, so it is called once, before anything logs.
func setupLogging(w io.Writer, format string, verbosity int) {
	handler := newLogHandler(w, format, verbosity)

	klogFlags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(klogFlags)
	// Cannot fail: the flag is klog's own and the value a number.
	_ = klogFlags.Set("v", strconv.Itoa(verbosity))
	klog.SetLoggerWithOptions(logr.FromSlogHandler(handler), klog.ContextualLogger(true))

	// SetDefault also redirects package log, at this level.
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(slog.New(libraryHandler{handler}))
}

// newLogHandler returns a handler that shows V levels up to verbosity; logr maps V(n) to the slog level -n.
func newLogHandler(w io.Writer, format string, verbosity int) slog.Handler {
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity), ReplaceAttr: readable}
	if format == LoggingFormatJSON {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

// readable writes V levels as INFO (up to V(3)) and DEBUG, where slog would call V(1) "DEBUG+3", which no log store
// knows; and durations as 1m30s, where JSON would have nanoseconds.
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

// libraryHandler lowers Info and Debug records of libraries to the V levels above; warnings and errors pass as they are.
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
