// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxLogText is the number of bytes of one text in a log line. Tenants choose names and messages.
const maxLogText = 4 << 10

// fieldNames are the fields of the lines of a pass. A line has each of them at most once: a further
// attribute of the same name, such as the "reason" of some lines of client-go, gets an underscore
// at its end.
var fieldNames = []string{"controller", "object", "generation", "reconcileID", "reason"}

// lineHandler keeps the names of fieldNames unique. It hands the attributes of a logger to the
// handler below with the first line only, because most loggers, one for each pass, never write a
// line.
type lineHandler struct {
	below slog.Handler
	attrs []slog.Attr
	// has has a bit for each name in fieldNames that is an attribute of the logger.
	has uint

	first sync.Once
	with  slog.Handler
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.below.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *lineHandler) Handle(ctx context.Context, record slog.Record) error {
	if h.has != 0 {
		record = h.renamed(record)
	}
	return h.handler().Handle(ctx, record)
}

// WithAttrs implements slog.Handler. The caller does not change attrs afterwards.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := &lineHandler{below: h.below, has: h.has}
	for i, attr := range attrs {
		bit := fieldBit(attr.Key)
		if next.has&bit != 0 {
			attrs[i].Key += "_"
		}
		next.has |= bit
	}
	next.attrs = slices.Concat(h.attrs, attrs)
	return next
}

// WithGroup implements slog.Handler. In a group, names cannot collide.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	return h.handler().WithGroup(name)
}

func (h *lineHandler) handler() slog.Handler {
	h.first.Do(func() {
		h.with = h.below
		if len(h.attrs) > 0 {
			h.with = h.below.WithAttrs(h.attrs)
		}
	})
	return h.with
}

// renamed returns the record with other names for the attributes that the logger has already.
func (h *lineHandler) renamed(record slog.Record) slog.Record {
	collides := false
	record.Attrs(func(attr slog.Attr) bool {
		collides = h.has&fieldBit(attr.Key) != 0
		return !collides
	})
	if !collides {
		return record
	}
	result := slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		if h.has&fieldBit(attr.Key) != 0 {
			attr.Key += "_"
		}
		result.AddAttrs(attr)
		return true
	})
	return result
}

// fieldBit returns the bit of a name in fieldNames; 0 for other names.
func fieldBit(name string) uint {
	if i := slices.Index(fieldNames, name); i >= 0 {
		return 1 << i
	}
	return 0
}

// readable makes an attribute fit a line: texts have a limit and no control characters, durations
// are as in 1m30s, and levels have names that log stores recognize. It implements the option
// ReplaceAttr of slog's handlers.
func readable(groups []string, attr slog.Attr) slog.Attr {
	switch attr.Value.Kind() {
	case slog.KindDuration:
		return slog.String(attr.Key, attr.Value.Duration().String())
	case slog.KindString:
		if text := attr.Value.String(); !isPlain(text) {
			return slog.String(attr.Key, logText(text))
		}
	case slog.KindAny:
		if level, ok := attr.Value.Any().(slog.Level); ok && len(groups) == 0 && attr.Key == slog.LevelKey {
			return slog.String(attr.Key, levelName(level))
		}
		attr.Value = bounded(attr.Value)
	}
	return attr
}

// levelName names levels up to V(3) INFO and higher ones DEBUG. slog would write V(1) as "DEBUG+3".
func levelName(level slog.Level) string {
	switch {
	case level <= slog.LevelDebug:
		return slog.LevelDebug.String()
	case level < slog.LevelWarn:
		return slog.LevelInfo.String()
	default:
		return level.String()
	}
}

// bounded returns a value with a limited text. A value that JSON can write in fewer bytes stays as
// it is.
func bounded(value slog.Value) slog.Value {
	switch v := value.Any().(type) {
	case nil:
		return value
	case error:
		return slog.StringValue(logText(v.Error()))
	case fmt.Stringer:
		return slog.StringValue(logText(v.String()))
	default:
		text, err := json.Marshal(v)
		if err != nil || len(text) > maxLogText {
			return slog.StringValue(logText(fmt.Sprintf("%+v", v)))
		}
		if plain := string(text); isPlain(plain) {
			return value
		}
		return slog.StringValue(logText(string(text)))
	}
}

// isPlain reports whether logText would not change the text.
func isPlain(text string) bool {
	if len(text) > maxLogText {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= utf8.RuneSelf || c == 0x7f {
			return !strings.ContainsFunc(text, isUnprintable) && utf8.ValidString(text)
		}
	}
	return true
}

// isUnprintable reports whether a terminal would not show the character as itself: control
// characters, and marks that change the direction or the width of text.
func isUnprintable(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// logText returns the first maxLogText bytes of a text, and "..." if there are more. Characters
// that a terminal would not show are written as in Go, such as \n.
func logText(text string) string {
	var line strings.Builder
	for _, r := range text {
		written := string(r)
		if r == utf8.RuneError || isUnprintable(r) {
			written = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		if line.Len()+len(written) > maxLogText {
			return line.String() + "..."
		}
		line.WriteString(written)
	}
	return line.String()
}
