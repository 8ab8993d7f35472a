// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// keepLogging restores the logging of the process at the end of the test.
func keepLogging(t *testing.T) {
	state, logger, flags, out := klog.CaptureState(), slog.Default(), log.Flags(), log.Writer()
	handlers := utilruntime.ErrorHandlers
	t.Cleanup(func() {
		utilruntime.ErrorHandlers = handlers //nolint:reassign // It is what the variable is for.
		state.Restore()
		slog.SetDefault(logger)
		log.SetFlags(flags)
		log.SetOutput(out)
	})
}

// TestCanceledWatchIsNotError: client-go reports the watches that a stop cancels like failed ones.
func TestCanceledWatchIsNotError(t *testing.T) {
	keepLogging(t)
	var out bytes.Buffer
	setupLogging(&out, LoggingFormatText, 2)
	stopped, stop := context.WithCancel(t.Context())
	stop()

	utilruntime.HandleErrorWithContext(stopped, stopped.Err(), "Failed to watch", "type", "Secret")
	utilruntime.HandleErrorWithContext(t.Context(), errors.New("refused"), "Failed to watch", "type", "ConfigMap")

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[1], "level=ERROR") {
		t.Errorf("logged %q, want an error in the second line only", lines)
	}
}

func TestVerbosity(t *testing.T) {
	const (
		warnings = "klog-warning slog-warn slog-error"
		v0       = "v0 klog-v0 " + warnings
	)
	tests := []struct {
		verbosity int
		want      string
	}{
		{0, v0},
		{1, "v1 " + v0},
		{2, "v1 v2 klog-v2 slog-info " + v0},
		{4, "v1 v2 klog-v2 slog-info v4 " + v0},
		{5, "v1 v2 klog-v2 slog-info v4 v5 slog-debug log " + v0},
		{7, "v1 v2 klog-v2 slog-info v4 v5 slog-debug log v7 " + v0},
	}
	for _, test := range tests {
		t.Run(slog.Level(test.verbosity).String(), func(t *testing.T) {
			keepLogging(t)
			var out bytes.Buffer
			setupLogging(&out, LoggingFormatJSON, test.verbosity)
			logger := klog.FromContext(t.Context())
			logger.Info("v0")
			logger.V(1).Info("v1")
			logger.V(2).Info("v2")
			logger.V(4).Info("v4")
			logger.V(5).Info("v5")
			logger.V(7).Info("v7")
			logger.V(8).Info("v8")
			klog.Info("klog-v0")
			klog.V(2).Info("klog-v2")
			klog.Warning("klog-warning")
			library := slog.Default()
			library.Debug("slog-debug")
			library.Info("slog-info")
			library.With("a", 1).WithGroup("g").Warn("slog-warn")
			library.Error("slog-error")
			log.Print("log")

			got := map[string]bool{}
			for line := range strings.Lines(out.String()) {
				var record struct{ Msg string }
				if err := json.Unmarshal([]byte(line), &record); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				got[strings.TrimSpace(record.Msg)] = true
			}
			for want := range strings.FieldsSeq(test.want) {
				if !got[want] {
					t.Errorf("%s is not in the log", want)
				}
				delete(got, want)
			}
			for extra := range got {
				t.Errorf("%s is in the log", extra)
			}
		})
	}
}

func TestPackageLogPanics(t *testing.T) {
	keepLogging(t)
	var out bytes.Buffer
	setupLogging(&out, LoggingFormatText, 0)
	func() {
		defer func() { _ = recover() }()
		log.Panic("cannot go on")
	}()

	if !strings.Contains(out.String(), ` level=ERROR msg="cannot go on"`) {
		t.Errorf("the log is %q", &out)
	}
}

func TestPackageLogLevel(t *testing.T) {
	const output = "log.(*Logger).output"
	tests := []struct {
		name      string
		functions []string
		level     slog.Level
		pass      bool
	}{
		{"a dependency", []string{output, "log.Printf", "example.com/dependency.Do", "main.main"}, slog.LevelDebug, true},
		{"a logger", []string{output, "log.(*Logger).Print", "main.main"}, slog.LevelDebug, true},
		{"a dependency ends the process", []string{output, "log.Fatalf", "example.com/dependency.Do"}, slog.LevelError, true},
		{"a logger panics", []string{output, "log.(*Logger).Panicln", "main.main"}, slog.LevelError, true},
		{"Helm", []string{output, "log.Printf", "helm.sh/helm/v4/pkg/chart/common/util.coalesceTablesFullKey", "main.main"}, slog.LevelDebug, false},
		{"a dependency below Helm", []string{output, "log.Printf", "example.com/dependency.Do", "helm.sh/helm/v4/pkg/action.Run"}, slog.LevelDebug, true},
		{"no caller", []string{output, "log.Printf"}, slog.LevelDebug, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if level, pass := packageLogLevel(test.functions); level != test.level || pass != test.pass {
				t.Errorf("got %s, %t, want %s, %t", level, pass, test.level, test.pass)
			}
		})
	}
}

func TestLevelNames(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(newLogHandler(&out, LoggingFormatText, 7))
	for _, level := range []slog.Level{-7, slog.LevelDebug, -1, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		logger.Log(t.Context(), level, "m", "level", level)
	}
	want := []string{"DEBUG", "DEBUG", "INFO", "INFO", "WARN", "ERROR"}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if !strings.Contains(line, " level="+want[i]+" msg=m") {
			t.Errorf("line %d = %q, want level %s", i, line, want[i])
		}
	}
}

func TestDurationsAreReadable(t *testing.T) {
	for format, want := range map[string]string{LoggingFormatText: " after=1m30s\n", LoggingFormatJSON: `,"after":"1m30s"}` + "\n"} {
		var out bytes.Buffer
		logr.FromSlogHandler(newLogHandler(&out, format, 0)).Info("m", "after", 90*time.Second)
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("%s: %q, want it to end with %q", format, &out, want)
		}
	}
}
