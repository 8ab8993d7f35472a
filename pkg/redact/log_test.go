// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/redact"
)

func TestLoggerWritesNoSecrets(t *testing.T) {
	var out bytes.Buffer
	ctx := klog.NewContext(t.Context(), logr.FromSlogHandler(slog.NewJSONHandler(&out, nil)))

	logger := klog.FromContext(redact.New([]string{"hunter2"}).Logging(ctx))
	logger = logger.WithValues("a", "hunter2 in values")
	logger.Error(errors.New("refused hunter2"), "message hunter2", "text", "hunter2", "list", []string{"x", "hunter2"},
		"group", slog.GroupValue(slog.String("member", "hunter2")), "count", 3)

	if text := out.String(); strings.Contains(text, "hunter2") || strings.Count(text, redact.Mark) != 6 {
		t.Errorf("got %s", text)
	}
	if text := out.String(); !strings.Contains(text, `"count":3`) {
		t.Errorf("a number has changed: %s", text)
	}
}

func TestLoggerKeepsTextsThatAreNotSecret(t *testing.T) {
	var plain, redacted bytes.Buffer
	write := func(out *bytes.Buffer, redactor *redact.Redactor) {
		options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}
		ctx := klog.NewContext(t.Context(), logr.FromSlogHandler(slog.NewJSONHandler(out, options)))
		if redactor != nil {
			ctx = redactor.Logging(ctx)
		}
		klog.FromContext(ctx).WithValues("object", klog.KRef("ns", "web")).Info("message", "list", []string{"a"}, "yes", true)
	}

	write(&plain, nil)
	write(&redacted, redact.New([]string{"hunter2"}))

	if plain.String() != redacted.String() {
		t.Errorf("got %s, want %s", &redacted, &plain)
	}
}
