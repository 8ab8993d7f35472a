// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Logging returns a context whose logger writes no secrets. Libraries log requests and errors at
// high levels, and the API server repeats values in its errors.
func (r *Redactor) Logging(ctx context.Context) context.Context {
	handler := logr.ToSlogHandler(klog.FromContext(ctx))
	return klog.NewContext(ctx, logr.FromSlogHandler(logHandler{Handler: handler, redactor: r}))
}

// logHandler removes secrets from the texts of records.
type logHandler struct {
	slog.Handler

	redactor *Redactor
}

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	redacted := slog.NewRecord(record.Time, record.Level, h.redactor.Text(record.Message), record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		redacted.AddAttrs(h.redactor.attr(attr))
		return true
	})
	return h.Handler.Handle(ctx, redacted)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	redacted := make([]slog.Attr, 0, len(attrs))
	for _, attr := range attrs {
		redacted = append(redacted, h.redactor.attr(attr))
	}
	return logHandler{Handler: h.Handler.WithAttrs(redacted), redactor: h.redactor}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{Handler: h.Handler.WithGroup(name), redactor: h.redactor}
}

// attr returns the attribute without secrets. Numbers, times and truth values stay as they are.
func (r *Redactor) attr(attr slog.Attr) slog.Attr {
	attr.Value = attr.Value.Resolve()
	switch attr.Value.Kind() {
	case slog.KindString:
		attr.Value = slog.StringValue(r.Text(attr.Value.String()))
	case slog.KindGroup:
		members := attr.Value.Group()
		redacted := make([]slog.Attr, 0, len(members))
		for _, member := range members {
			redacted = append(redacted, r.attr(member))
		}
		attr.Value = slog.GroupValue(redacted...)
	case slog.KindAny:
		text := fmt.Sprint(attr.Value.Any())
		if redacted := r.Text(text); redacted != text {
			attr.Value = slog.StringValue(redacted)
		}
	}
	return attr
}
