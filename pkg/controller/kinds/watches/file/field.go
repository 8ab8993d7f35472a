// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/example/demoapp-controller/pkg/message"
)

// reader collects the errors of a file.
type reader struct {
	name    string
	env     func(string) (string, bool)
	errs    []error
	omitted int
}

// report adds an error.
func (r *reader) report(err *Error) {
	if len(r.errs) == maxErrors {
		r.omitted++
		return
	}
	r.errs = append(r.errs, err)
}

// count is the number of errors so far.
func (r *reader) count() int { return len(r.errs) + r.omitted }

// err returns all errors, sorted by line.
func (r *reader) err() error {
	errs := r.errs
	if r.omitted > 0 {
		errs = append(errs, &Error{File: r.name, Err: fmt.Errorf("%d more errors are not listed", r.omitted)})
	}
	return Join(errs...)
}

// field is a value of the file. Its methods report the errors in it.
type field struct {
	*yaml.Node
	reader   *reader
	position *position
	path     string
}

// position is where an entry is in its file.
type position struct {
	file  string
	line  int
	entry int
	kind  string
	// lines are the lines of the fields of the entry that have a value.
	lines map[string]int
}

// error returns an error about the field at a line of the file; 0 means the line of the entry.
func (p *position) error(line int, path string, err error) *Error {
	if line == 0 {
		line = p.line
	}
	return &Error{File: p.file, Line: line, Entry: p.entry, Kind: p.kind, Field: path, Err: err}
}

// refuse reports an error about the field.
func (f field) refuse(format string, args ...any) {
	f.reader.report(f.position.error(f.Line, f.path, fmt.Errorf(format, args...)))
}

// child returns a field below f.
func (f field) child(node *yaml.Node, path string) field {
	return field{Node: node, reader: f.reader, position: f.position, path: path}
}

// isNull reports whether a node is null, which is the same as an absent field.
func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// describe names the type of a node for an error.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool", "!!int", "!!float":
		return scalar(node)
	default:
		return "the text " + quoted(node.Value)
	}
}

// scalar returns the scalar as the file has it, shortened.
func scalar(node *yaml.Node) string { return message.Line(node.Value, maxQuoted) }

// keys calls visit for each key of an object, except for those without a value. It reports keys
// that are not texts and keys that occur twice. join makes the path of a key.
func (f field) keys(join func(path, key string) string, visit func(key *yaml.Node, value field)) {
	if f.Kind != yaml.MappingNode {
		f.refuse("must be an object (key: value), got %s", describe(f.Node))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(f.Content); i += 2 {
		key, value := f.Content[i], f.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			f.child(key, f.path).refuse("has %s as a key; a key must be a text", describe(key))
			continue
		}
		path := join(f.path, scalar(key))
		if line, twice := seen[key.Value]; twice {
			f.child(key, path).refuse("is already set in line %d; remove one of them", line)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, f.child(value, path))
	}
}

// object reads an object with known fields. It reports unknown ones.
func (f field) object(fields map[string]func(field)) {
	f.keys(joinField, func(key *yaml.Node, value field) {
		read, known := fields[key.Value]
		if !known {
			names := slices.Sorted(maps.Keys(fields))
			hint := "the fields here are " + strings.Join(names, ", ")
			if name := closest(key.Value, names); name != "" {
				hint = "did you mean " + name + "?"
			}
			f.child(key, value.path).refuse("is not a known field; %s", hint)
			return
		}
		if !isNull(value.Node) {
			read(value)
		}
	})
}

func joinField(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func joinKey(path, key string) string { return path + "[" + key + "]" }

// items returns the items of a list, of which there may be limit.
func (f field) items(limit int) []field {
	if f.Kind != yaml.SequenceNode {
		f.refuse("must be a list, got %s", describe(f.Node))
		return nil
	}
	if len(f.Content) > limit {
		f.refuse("has %d items, and may have %d", len(f.Content), limit)
		return nil
	}
	items := make([]field, len(f.Content))
	for i, node := range f.Content {
		items[i] = f.child(node, joinKey(f.path, strconv.Itoa(i)))
	}
	return items
}

// text reads a text that valid accepts. The error of valid describes the error in the text.
func (f field) text(target *string, valid func(string) error) {
	if f.Kind != yaml.ScalarNode || f.ShortTag() != "!!str" {
		hint := ""
		if f.Kind == yaml.ScalarNode && !isNull(f.Node) {
			hint = "; put it in quotes"
		}
		f.refuse("must be a text, got %s%s", describe(f.Node), hint)
		return
	}
	if err := valid(f.Value); err != nil {
		f.refuse("%w", err)
		return
	}
	*target = f.Value
}

// boolean reads true or false. As upstream, it accepts the words of YAML 1.1, such as yes and off.
func (f field) boolean(target *bool) {
	if f.Kind != yaml.ScalarNode || f.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 ||
		f.Decode(target) != nil {
		f.refuse("must be true or false, got %s", describe(f.Node))
	}
}

// number reads a whole number.
func (f field) number(target *int32, least, most int32) {
	var value int32
	if f.Kind != yaml.ScalarNode || f.ShortTag() != "!!int" || f.Decode(&value) != nil || value < least || value > most {
		f.refuse("must be a whole number from %d to %d, got %s", least, most, describe(f.Node))
		return
	}
	*target = value
}

// duration reads a Go duration.
func (f field) duration(target *time.Duration, least, most time.Duration) {
	if f.Kind != yaml.ScalarNode {
		f.refuse("must be a duration such as 5m, got %s", describe(f.Node))
		return
	}
	value, err := time.ParseDuration(f.Value)
	if err != nil {
		f.refuse("%s is not a duration; use for example 5m", quoted(f.Value))
		return
	}
	if value < least || value > most {
		f.refuse("must be from %s to %s, got %s", short(least), short(most), quoted(f.Value))
		return
	}
	*target = value
}

// short returns a duration without its zero units: 24h instead of 24h0m0s.
func short(duration time.Duration) string {
	text := duration.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// oneOf reads one of the values of an enumeration.
func oneOf[T ~string](f field, target *T, values ...T) {
	var text string
	f.text(&text, func(text string) error {
		if !slices.Contains(values, T(text)) {
			return fmt.Errorf("must be %s, got %s", alternatives(values), quoted(text))
		}
		return nil
	})
	if text != "" {
		*target = T(text)
	}
}

// alternatives returns "A, B or C".
func alternatives[T ~string](values []T) string {
	var text strings.Builder
	for i, value := range values {
		switch {
		case i == 0:
		case i == len(values)-1:
			text.WriteString(" or ")
		default:
			text.WriteString(", ")
		}
		text.WriteString(string(value))
	}
	return text.String()
}
