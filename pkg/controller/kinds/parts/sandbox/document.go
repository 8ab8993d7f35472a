// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"
)

const (
	// insertFunction is the name of the function that each action of a document calls with its
	// value. Templates cannot call it, see stepFunction.
	insertFunction = "_insert"
	// openMark and closeMark enclose the number of an inserted value. They are in the private use
	// area of Unicode, which YAML treats as letters. Templates of documents must not contain them.
	openMark, closeMark = "\uE000", "\uE001"
)

// placeholder matches the placeholder of an inserted value.
var placeholder = regexp.MustCompile(openMark + `(\d+)` + closeMark)

var (
	errDocumentTooLarge = fmt.Errorf("the rendered YAML has more than %d bytes: use fewer or shorter loops", MaxBytes)
	errMark             = errors.New("the characters U+E000 and U+E001 are not available")
	errNothing          = errors.New("has no value: use default, if or with for a field that may be missing")
	errNotUTF8          = errors.New("the text is not valid UTF-8: do not cut characters with slice")
)

// Document is a rendered template of YAML before its values are inserted. Its text comes only from
// the template, with a placeholder for each value of an action. The text is parsed before
// [Document.Value] and [Document.Text] replace placeholders, so no value can change the structure
// of the YAML.
type Document struct {
	// YAML is the text with placeholders.
	YAML string

	inserted []insertion
}

// insertion is a value that an action inserted.
type insertion struct {
	markup
	// action is the text of the action in the template.
	action string
}

// markup is the result of a function that writes YAML, such as quote and toYaml.
type markup struct {
	// value is the value that the YAML represents, and text is the YAML.
	value any
	text  string
	// space is the white space that indent and nindent add before the YAML. read is the text with
	// all white space, for other functions.
	space, read string
}

// CheckDocument returns the first error of a YAML template that can be found without rendering it.
func CheckDocument(text string) error {
	if _, _, err := (&meter{isDocument: true}).parse(text); err != nil {
		return newError("", err)
	}
	return nil
}

// RenderDocument renders a YAML template over data, which has only JSON values. The error is an
// [*Error].
func RenderDocument(text string, data map[string]any) (*Document, error) {
	m, out := &meter{isDocument: true, rangeSteps: largestMap(data)}, &output{}
	rendered, err := render(text, data, m, out)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, newError("", errDocumentTooLarge)
	case err != nil:
		return nil, newError("", err)
	}
	return &Document{YAML: rendered, inserted: m.inserted}, nil
}

// Value returns the replacement of a scalar of the document. If the scalar is a single placeholder,
// Value returns the inserted value. Otherwise, inserted values become part of a text.
func (d *Document) Value(scalar string) (any, error) {
	if only := placeholder.FindString(scalar); only == scalar && only != "" {
		return d.at(only).value, nil
	}
	for _, found := range placeholder.FindAllString(scalar, -1) {
		// indent and nindent imply YAML. Next to other text, YAML would fold the value into that
		// text.
		if from := d.at(found); from.space != "" && !isScalar(from.value) {
			return nil, fmt.Errorf("%s is an object or a list beside something else: write it alone below its key", from.action)
		}
	}
	return d.Text(scalar)
}

// Text returns the replacement of a scalar of the document that must remain a text: in quotes, as a
// block or as a key.
func (d *Document) Text(scalar string) (text string, err error) {
	text = placeholder.ReplaceAllStringFunc(scalar, func(found string) string {
		from := d.at(found)
		if from.text == "" && !isScalar(from.value) {
			err = fmt.Errorf("%s is an object or a list, which cannot be part of a text: write it alone, without quotes, or use toJson", from.action)
		}
		return from.text
	})
	return text, err
}

// Show returns a text of the document with actions instead of placeholders. The result has no
// inserted value.
func (d *Document) Show(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string { return d.at(found).action })
}

// at returns the insertion of a placeholder.
func (d *Document) at(found string) insertion {
	i, err := strconv.Atoi(found[len(openMark) : len(found)-len(closeMark)])
	if err != nil || i >= len(d.inserted) {
		return insertion{}
	}
	return d.inserted[i]
}

// installInsert makes an action insert its value.
func (m *meter) installInsert(n *parse.ActionNode) {
	if !m.isDocument || len(n.Pipe.Decl) > 0 {
		return // The declaration of a variable writes nothing.
	}
	m.actions = append(m.actions, "{{ "+n.Pipe.String()+" }}")
	n.Pipe.Cmds = append(n.Pipe.Cmds, call(n.Pos, insertFunction, len(m.actions)-1))
}

// insert records the value of an action and returns its placeholder.
func (m *meter) insert(action int, v any) (string, error) {
	made, isMarkup := v.(markup)
	if !isMarkup {
		made = markup{value: v}
	}
	if made.value == nil {
		return "", &actionError{m.actions[action], errNothing}
	}
	made.value = plain(made.value)
	if err := m.process(sizeOf(made.value) + len(made.text)); err != nil {
		return "", err
	}
	if !isMarkup && isScalar(made.value) {
		text, err := m.read(made.value)
		if err != nil {
			return "", err
		}
		made.text = text
	}
	if !utf8.ValidString(made.text) {
		return "", &actionError{m.actions[action], errNotUTF8}
	}
	m.inserted = append(m.inserted, insertion{made, m.actions[action]})
	return made.space + openMark + strconv.Itoa(len(m.inserted)-1) + closeMark, nil
}

// plain converts types of templates that JSON does not have.
func plain(v any) any {
	switch v := v.(type) {
	case markup:
		return v.read
	case []string:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = item
		}
		return items
	default:
		return whole(v)
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

// actionError is an error of an action of a document.
type actionError struct {
	action string
	err    error
}

// Error implements error.
func (e *actionError) Error() string { return e.action + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *actionError) Unwrap() error { return e.err }

// documentFunctions returns the functions that write YAML. A template calls them as in a chart, and
// their results are inserted as the values that the YAML stands for.
func (m *meter) documentFunctions() template.FuncMap {
	written := func(value any, text string, err error) (markup, error) {
		return markup{value: value, text: text, read: text}, err
	}
	return template.FuncMap{
		"quote": func(v any) (markup, error) {
			s, err := m.read(v)
			if err != nil {
				return markup{}, err
			}
			text, err := m.made(strconv.Quote(s))
			return written(s, text, err)
		},
		"toJson": func(v any) (markup, error) {
			text, err := m.toJSON(plain(v))
			return written(plain(v), text, err)
		},
		"toYaml": func(v any) (markup, error) {
			text, err := m.toYAML(plain(v))
			return written(plain(v), text, err)
		},
		"trim": func(v any) (any, error) {
			if made, isMarkup := v.(markup); isMarkup {
				return markup{value: made.value, text: made.text, read: strings.TrimSpace(made.read)}, nil
			}
			return m.text(strings.TrimSpace)(v)
		},
		"indent":  func(spaces int, v any) (markup, error) { return m.indented("", spaces, v) },
		"nindent": func(spaces int, v any) (markup, error) { return m.indented("\n", spaces, v) },
	}
}

// indented returns a value with white space before it. Only the first line gets white space,
// because YAML would remove it from further lines of a block.
func (m *meter) indented(before string, spaces int, v any) (markup, error) {
	text, err := m.indent(spaces, v)
	if err != nil {
		return markup{}, err
	}
	made, isMarkup := v.(markup)
	if !isMarkup {
		s, err := m.read(v)
		if err != nil {
			return markup{}, err
		}
		made = markup{value: s, text: s}
	}
	made.space, made.read = before+strings.Repeat(" ", spaces), before+text
	return made, nil
}

// checkIndents refuses a computed number of spaces, because a value could otherwise change the
// structure.
func checkIndents(n *parse.CommandNode) error {
	name, isFunction := n.Args[0].(*parse.IdentifierNode)
	if !isFunction || !slices.Contains([]string{"indent", "nindent"}, name.Ident) || len(n.Args) < 2 {
		return nil
	}
	if _, isNumber := n.Args[1].(*parse.NumberNode); !isNumber {
		return fmt.Errorf("%s: the number of spaces must be written in the template", n)
	}
	return nil
}
