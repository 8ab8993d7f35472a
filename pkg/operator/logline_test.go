// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest/passlog"
)

// passOf runs a controller with this reconciler for a second at a verbosity, and returns the JSON
// log.
func passOf(t *testing.T, verbosity int, reconcile controller.ReconcilerFunc) string {
	t.Helper()
	var out passlog.Recorder
	synctest.Test(t, func(t *testing.T) {
		lead := klog.NewContext(t.Context(), logr.FromSlogHandler(newLogHandler(&out, LoggingFormatJSON, verbosity)))
		stop, end := context.WithCancel(t.Context())
		c := controller.New(reconcile, controller.Options{Name: "test", Workers: 1})
		ended := make(chan error, 1)
		go func() { ended <- c.Run(stop, lead) }()
		c.Enqueue(cache.NewObjectName("ns", "web"), controller.SpecChange|controller.Drift)
		time.Sleep(time.Second)
		synctest.Wait()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return out.String()
}

// TestLinesOfPassesHaveAllFields covers all results of a pass, and lines of this project and of
// libraries.
func TestLinesOfPassesHaveAllFields(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "apps"}, "web", errors.New("newer version"))
	tests := []struct {
		name string
		end  func() (controller.Result, error)
		want string
	}{
		{"success", func() (controller.Result, error) { return controller.Result{}, nil }, "Reconciled"},
		{"failure", func() (controller.Result, error) { return controller.Result{}, io.ErrUnexpectedEOF }, "Reconcile failed"},
		{"terminal failure", func() (controller.Result, error) {
			return controller.Result{}, controller.Terminal(io.ErrUnexpectedEOF)
		}, "Reconcile failed, waiting for a change"},
		{"conflict", func() (controller.Result, error) { return controller.Result{}, conflict }, "Reconcile met a conflict"},
		{"panic", func() (controller.Result, error) { panic("out of cheese") }, "Reconcile panicked"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			log := passOf(t, 7, func(ctx context.Context, _ cache.ObjectName, _ controller.Reason) (controller.Result, error) {
				ctx = controller.LogGeneration(ctx, 4)
				klog.FromContext(ctx).V(3).Info("client-go waited", "reason", "throttled", "object", "theirs")
				LibraryLogger(ctx).Debug("creating release", "name", "web", "generation", "2")
				return test.end()
			})

			problems, passes := passlog.Problems(log)
			if len(problems) > 0 || passes < 4 {
				t.Errorf("%d lines, problems %q", passes, problems)
			}
			for _, want := range []string{
				`"msg":"` + test.want + `","controller":"test","object":{"name":"web","namespace":"ns"},"reconcileID":"`,
				`"reason":"SpecChange|Drift","generation":4`, `"reason_":"throttled","object_":"theirs"`, `"name":"web","generation_":"2"`,
			} {
				if !strings.Contains(log, want) {
					t.Errorf("the log lacks %s:\n%s", want, log)
				}
			}
		})
	}
}

func TestPassWithoutChangeLogsNothing(t *testing.T) {
	log := passOf(t, 0, func(ctx context.Context, _ cache.ObjectName, _ controller.Reason) (controller.Result, error) {
		controller.LogGeneration(ctx, 1)
		return controller.Result{}, nil
	})

	if log != "" {
		t.Errorf("logged %s", log)
	}
}

// TestFailureIsOneLine: an error or the stack of a panic is logged once, in one line.
func TestFailureIsOneLine(t *testing.T) {
	var failures int
	log := passOf(t, 0, func(context.Context, cache.ObjectName, controller.Reason) (controller.Result, error) {
		if failures++; failures > 1 {
			return controller.Result{}, nil
		}
		panic("out of cheese")
	})

	if strings.Count(log, "\n") != 1 || strings.Count(log, "out of cheese") != 1 || !strings.Contains(log, "logline_test.go") {
		t.Errorf("logged %s", log)
	}
}

// TestLinesAreBoundedAndPrintable writes texts of tenants to all parts of a line.
func TestLinesAreBoundedAndPrintable(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	headers := http.Header{}
	for i := range 1000 {
		headers.Add(fmt.Sprintf("X-%d", i), long[:100])
	}
	hostile := "a\nlevel=ERROR msg=forged\r\x1b[31m\u009b2J\u202e\u2028\x00\xffz"
	for _, format := range []string{LoggingFormatJSON, LoggingFormatText} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			logger := logr.FromSlogHandler(newLogHandler(&out, format, 7)).WithValues("given", hostile, "long", long)

			logger.Error(errors.New(hostile+long), hostile+long, "text", hostile, "list", []string{hostile}, "headers", headers,
				"stringer", cache.ObjectName{Namespace: hostile, Name: long}, "group", slog.GroupValue(slog.String("member", hostile)))

			line := strings.TrimSuffix(out.String(), "\n")
			if len(line) > 32<<10 {
				t.Errorf("the line has %d bytes", len(line))
			}
			if i := strings.IndexFunc(line, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("the line has %q: %q", line[i:i+4], line[max(0, i-50):i+50])
			}
			if format == LoggingFormatJSON {
				var record map[string]any
				if err := json.Unmarshal([]byte(line), &record); err != nil {
					t.Fatal(err)
				}
				if text := fmt.Sprint(record); strings.ContainsAny(text, "\n\r\x1b\u009b\u202e") {
					t.Errorf("a decoded text has control characters: %.300q", text)
				}
			}
		})
	}
}

// TestPlainTextsAreNotEscaped: ordinary texts are written without changes.
func TestPlainTextsAreNotEscaped(t *testing.T) {
	for _, text := range []string{"", "Installed revision 1 of chart demo-app", `"quoted" <b>`, "größer 東京", strings.Repeat("x", maxLogText)} {
		if got := readable(nil, slog.String("a", text)).Value.String(); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestOtherGlobalRecordsKeepTheirLevel: only Helm's records of the default logger get a lower
// level.
func TestOtherGlobalRecordsKeepTheirLevel(t *testing.T) {
	var out bytes.Buffer
	library := slog.New(globalHandler{libraryHandler{newLogHandler(&out, LoggingFormatJSON, 0)}})

	library.Error("shown")
	library.Info("hidden")

	if got := out.String(); !strings.Contains(got, "shown") || strings.Contains(got, "hidden") {
		t.Errorf("logged %s", got)
	}
}

// BenchmarkPass measures a pass that changes and logs nothing.
func BenchmarkPass(b *testing.B) {
	lead := klog.NewContext(b.Context(), logr.FromSlogHandler(newLogHandler(io.Discard, LoggingFormatJSON, 0)))
	passed := make(chan struct{})
	c := controller.New(controller.ReconcilerFunc(func(ctx context.Context, _ cache.ObjectName, _ controller.Reason) (controller.Result, error) {
		controller.LogGeneration(ctx, 1)
		passed <- struct{}{}
		return controller.Result{}, nil
	}), controller.Options{Name: "test", Workers: 1})
	stop, end := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(stop, lead) }()
	key := cache.NewObjectName("ns", "web")
	b.ReportAllocs()
	for b.Loop() {
		c.Enqueue(key, controller.SpecChange)
		<-passed
	}
	end()
	if err := <-ended; err != nil && !slices.Contains([]error{context.Canceled}, err) {
		b.Error(err)
	}
}
