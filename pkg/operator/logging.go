// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"flag"
	"io"
	"log"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// V levels of library records from slog and log. Helm logs every step at Debug, and returns its
// errors to the caller. Its records are therefore shown only at a higher verbosity.
const (
	libraryInfoVerbosity  = 2
	libraryDebugVerbosity = 5
)

// setupLogging directs all logs to one handler: klog (this project and client-go), slog (Helm) and
// package log. It changes process-wide state. Call it once, before the first log line.
func setupLogging(w io.Writer, format string, verbosity int) {
	handler := newLogHandler(w, format, verbosity)

	klogFlags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(klogFlags)
	// Set cannot fail: klog defines the flag, and the value is a number.
	_ = klogFlags.Set("v", strconv.Itoa(verbosity))
	klog.SetLoggerWithOptions(logr.FromSlogHandler(handler), klog.ContextualLogger(true))

	// The first handler of the library logs. The remaining handlers limit the rate.
	utilruntime.ErrorHandlers = append([]utilruntime.ErrorHandler{logUnlessStopped}, utilruntime.ErrorHandlers[1:]...) //nolint:reassign // It is what the variable is for.

	slog.SetDefault(slog.New(globalHandler{libraryHandler{handler}}))
	// SetDefault has redirected package log at level Info.
	log.SetOutput(packageLog{libraryHandler{handler}})
}

// logUnlessStopped logs an error that a library cannot return, such as the failure of a watch. The
// end of the library's context cancels its requests, which is no error.
func logUnlessStopped(ctx context.Context, err error, message string, keysAndValues ...any) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), "UnhandledError")
	if ctx.Err() != nil {
		logger.V(libraryInfoVerbosity).WithValues("err", err).Info(message, keysAndValues...)
		return
	}
	logger.Error(err, message, keysAndValues...)
}

// packageLog is the output of package log. It passes lines on at level Debug, and at level Error if
// the line ends the process or panics. It drops the lines of Helm, which prints values of charts.
// These values may be from Secrets: "warning: destination for X is a table. Ignoring non-table
// value (Y)".
type packageLog struct{ slog.Handler }

// maxLogCallers bounds the callers that are read to find the one of package log.
const maxLogCallers = 16

// Write implements io.Writer.
func (l packageLog) Write(line []byte) (int, error) {
	var callers [maxLogCallers]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])]) // Without Callers and Write.
	var functions []string
	for {
		frame, more := frames.Next()
		functions = append(functions, frame.Function)
		if !more {
			break
		}
	}
	ctx := context.Background()
	level, pass := packageLogLevel(functions)
	if !pass || !l.Enabled(ctx, level) {
		return len(line), nil
	}
	if err := l.Handle(ctx, slog.NewRecord(time.Now(), level, strings.TrimSpace(string(line)), 0)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// packageLogLevel returns the level of a line of package log, and whether the line is passed on.
// functions are the callers, the innermost first: callers in package log, followed by the caller
// that logs.
func packageLogLevel(functions []string) (level slog.Level, pass bool) {
	level = slog.LevelDebug
	for _, function := range functions {
		name, ours := strings.CutPrefix(function, "log.")
		if !ours {
			return level, !isHelm(function)
		}
		name = strings.TrimPrefix(name, "(*Logger).")
		if strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic") {
			level = slog.LevelError
		}
	}
	return level, false
}

// isHelm reports whether a function is of Helm.
func isHelm(function string) bool { return strings.HasPrefix(function, "helm.sh/helm/") }

// LibraryLogger returns a logger for libraries that use slog. It has the fields of the logger in
// ctx, and shows Info and Debug records at the V levels of libraries.
func LibraryLogger(ctx context.Context) *slog.Logger {
	return slog.New(libraryHandler{logr.ToSlogHandler(klog.FromContext(ctx))})
}

// newLogHandler returns a handler that shows V levels up to verbosity. logr maps V(n) to the slog
// level -n.
func newLogHandler(w io.Writer, format string, verbosity int) slog.Handler {
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity), ReplaceAttr: readable}
	if format == LoggingFormatJSON {
		return &lineHandler{below: slog.NewJSONHandler(w, options)}
	}
	return &lineHandler{below: slog.NewTextHandler(w, options)}
}

// libraryHandler maps Info and Debug records of libraries to the V levels above. Warnings and
// errors are not changed.
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

// globalHandler handles the records of the default logger. Records of Helm without the logger of an
// operation cannot have the fields of a pass. They are details, or repeat a returned error, and so
// are shown as Debug records.
type globalHandler struct{ libraryHandler }

// Handle implements slog.Handler.
func (h globalHandler) Handle(ctx context.Context, record slog.Record) error {
	if frame, _ := runtime.CallersFrames([]uintptr{record.PC}).Next(); isHelm(frame.Function) {
		record.Level = slog.LevelDebug
	}
	if !h.Enabled(ctx, record.Level) {
		return nil
	}
	return h.libraryHandler.Handle(ctx, record)
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
