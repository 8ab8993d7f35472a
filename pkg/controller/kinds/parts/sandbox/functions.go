// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// builtins are the functions of text/template that templates may call. They neither read nor
// produce texts, so they charge nothing. The map has only their names. text/template has the
// functions.
var builtins = map[string]any{
	"and": "", "or": "", "not": "", "len": "", "slice": "",
}

// Functions returns the sorted names of the functions that templates may call.
func Functions() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range builtins {
			if !yield(name) {
				return
			}
		}
		maps.Keys((&meter{}).functions())(yield)
	})
}

// functions returns the functions that charge the meter. Their names and the order of their
// arguments are the same as in Helm.
func (m *meter) functions() template.FuncMap {
	functions := template.FuncMap{
		"default":    defaultTo,
		"eq":         m.equalsAny,
		"ne":         m.differs,
		"index":      m.index,
		"lt":         m.ordered(func(order int) bool { return order < 0 }),
		"le":         m.ordered(func(order int) bool { return order <= 0 }),
		"gt":         m.ordered(func(order int) bool { return order > 0 }),
		"ge":         m.ordered(func(order int) bool { return order >= 0 }),
		"quote":      m.text(strconv.Quote),
		"upper":      m.text(strings.ToUpper),
		"lower":      m.text(strings.ToLower),
		"trim":       m.text(strings.TrimSpace),
		"trimPrefix": m.texts(func(prefix, s string) string { return strings.TrimPrefix(s, prefix) }),
		"trimSuffix": m.texts(func(suffix, s string) string { return strings.TrimSuffix(s, suffix) }),
		"contains":   m.test(func(part, s string) bool { return strings.Contains(s, part) }),
		"hasPrefix":  m.test(func(prefix, s string) bool { return strings.HasPrefix(s, prefix) }),
		"hasSuffix":  m.test(func(suffix, s string) bool { return strings.HasSuffix(s, suffix) }),
		"replace":    m.replace,
		"indent":     m.indent,
		"nindent": func(spaces int, v any) (string, error) {
			indented, err := m.indent(spaces, v)
			return "\n" + indented, err
		},
		"splitList": m.splitList,
		"join":      m.join,
		"toJson":    m.toJSON,
		"toYaml":    m.toYAML,
		"print":     m.print,
		"printf":    m.printf,
		"trunc":     m.trunc,
		"hasKey":    m.hasKey,
		"add":       calculate(func(a, b int64) (int64, error) { return a + b, nil }),
		"sub":       calculate(func(a, b int64) (int64, error) { return a - b, nil }),
		"mul":       calculate(func(a, b int64) (int64, error) { return a * b, nil }),
		"div":       calculate(divide),
	}
	if m.isDocument {
		maps.Copy(functions, m.documentFunctions())
	}
	return functions
}

// text returns a function of one text. Its result has at most a few times the bytes of the text.
func (m *meter) text(f func(string) string) func(any) (string, error) {
	return func(v any) (string, error) {
		s, err := m.read(v)
		if err != nil {
			return "", err
		}
		return m.made(f(s))
	}
}

// texts is like text, for two texts.
func (m *meter) texts(f func(a, b string) string) func(a, b any) (string, error) {
	return func(a, b any) (string, error) {
		first, err1 := m.read(a)
		second, err2 := m.read(b)
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		return m.made(f(first, second))
	}
}

func (m *meter) test(f func(a, b string) bool) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		first, err1 := m.read(a)
		second, err2 := m.read(b)
		if err := errors.Join(err1, err2); err != nil {
			return false, err
		}
		return f(first, second), nil
	}
}

// read charges an argument and returns it as text.
func (m *meter) read(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		if m.isDocument {
			return "", errNothing
		}
		return "", nil
	case string:
		return v, m.process(len(v))
	case markup:
		return v.read, m.process(len(v.read))
	case int, int64, float64, bool:
		return fmt.Sprint(v), nil
	default:
		return "", errors.New("takes a text, a number, true or false: use toJson for an object or list")
	}
}

// made charges a result.
func (m *meter) made(s string) (string, error) { return s, m.process(len(s)) }

func defaultTo(fallback, v any) any {
	switch v {
	case nil, "", 0, int64(0), 0.0, false:
		return fallback
	default:
		return v
	}
}

// index returns the item of an object at a key, or of a list or text at a position. Further keys
// select nested items. The item is nil if the object does not have the key.
func (m *meter) index(v any, keys ...any) (any, error) {
	for _, key := range keys {
		name, isName := key.(string)
		position, isPosition := whole(key).(int64)
		if err := m.process(len(name)); err != nil {
			return nil, err
		}
		var err error
		switch items := v.(type) {
		case map[string]any:
			if !isName {
				return nil, errors.New("takes a text as the key of an object")
			}
			v = items[name]
		case []any:
			v, err = itemAt(items, position, isPosition)
		case []string:
			v, err = itemAt(items, position, isPosition)
		case string:
			if err = m.process(len(items)); err == nil {
				v, err = itemAt([]byte(items), position, isPosition)
			}
		default:
			err = errors.New("takes an object, a list or a text")
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func itemAt[T any](items []T, position int64, isPosition bool) (any, error) {
	if !isPosition || position < 0 || position >= int64(len(items)) {
		return nil, errors.New("takes a position in the list or text, from 0 to its length less one")
	}
	return items[position], nil
}

func (m *meter) replace(old, replacement, v any) (string, error) {
	from, err1 := m.read(old)
	to, err2 := m.read(replacement)
	s, err3 := m.read(v)
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	// None of the factors is larger than maxProcessed, so the product does not overflow.
	if err := m.process(len(s) + strings.Count(s, from)*len(to)); err != nil {
		return "", err
	}
	return strings.ReplaceAll(s, from, to), nil
}

func (m *meter) indent(spaces int, v any) (string, error) {
	s, err := m.read(v)
	if err != nil {
		return "", err
	}
	if spaces < 0 || spaces > maxIndent {
		return "", fmt.Errorf("takes 0 to %d spaces", maxIndent)
	}
	if err := m.process(len(s) + (strings.Count(s, "\n")+1)*spaces); err != nil {
		return "", err
	}
	padding := strings.Repeat(" ", spaces)
	return padding + strings.ReplaceAll(s, "\n", "\n"+padding), nil
}

// maxIndent is the limit of the spaces that indent adds to a line.
const maxIndent = 100

func (m *meter) splitList(separator, v any) ([]string, error) {
	by, err1 := m.read(separator)
	s, err2 := m.read(v)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := m.process(itemBytes * (strings.Count(s, by) + 1)); err != nil {
		return nil, err
	}
	return strings.Split(s, by), nil
}

// itemBytes is the size of an item of a list or an object, without its text.
const itemBytes = 16

func (m *meter) join(separator, list any) (string, error) {
	with, err := m.read(separator)
	if err != nil {
		return "", err
	}
	var items []string
	switch list := list.(type) {
	case []string:
		items = list
	case []any:
		for _, item := range list {
			text, err := m.read(item)
			if err != nil {
				return "", err
			}
			items = append(items, text)
		}
	default:
		return "", errors.New("takes a list")
	}
	size := (len(with) + itemBytes) * len(items)
	for _, item := range items {
		size += len(item)
	}
	if err := m.process(size); err != nil {
		return "", err
	}
	return strings.Join(items, with), nil
}

// toJSON returns a value as JSON in one line. Unlike encoding/json, it keeps <, > and & as they
// are.
func (m *meter) toJSON(v any) (string, error) {
	if err := m.process(sizeOf(v)); err != nil {
		return "", err
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "", errors.New("takes a value that JSON can hold")
	}
	return m.made(strings.TrimSuffix(encoded.String(), "\n"))
}

// toYAML returns a value as YAML in the style of Helm, without the line break at its end.
func (m *meter) toYAML(v any) (string, error) {
	if err := m.process(yamlBytes + yamlFactor*sizeAsYAML(v, 0)); err != nil {
		return "", err
	}
	var encoded bytes.Buffer
	encoder := yaml.NewEncoder(&encoded)
	encoder.SetIndent(yamlIndent)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(v), encoder.Close()); err != nil {
		return "", errors.New("takes a value that YAML can hold")
	}
	return m.made(strings.TrimSuffix(encoded.String(), "\n"))
}

const (
	// yamlIndent is the number of spaces of each level of YAML.
	yamlIndent = 2
	// yamlFactor and yamlBytes are the costs of YAML compared with JSON, for each byte and for each
	// call.
	yamlFactor, yamlBytes = 8, 4096
)

// sizeAsYAML estimates the size of a value as YAML, in bytes. Each line is indented by its depth.
func sizeAsYAML(value any, depth int) int {
	size := itemBytes + yamlIndent*depth
	switch v := value.(type) {
	case string:
		size += len(v) + yamlIndent*depth*strings.Count(v, "\n")
	case map[string]any:
		for key, item := range v {
			size += len(key) + sizeAsYAML(item, depth+1)
		}
	case []any:
		for _, item := range v {
			size += sizeAsYAML(item, depth+1)
		}
	case []string:
		for _, item := range v {
			size += sizeAsYAML(item, depth+1)
		}
	}
	return size
}

// trunc truncates a text to a number of bytes, between characters.
func (m *meter) trunc(limit int, v any) (string, error) {
	s, err := m.read(v)
	if err != nil || limit >= len(s) {
		return s, err
	}
	if limit < 0 {
		return "", errors.New("takes a length of at least 0")
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return m.made(s[:limit])
}

// hasKey reports whether an object has a key. A missing object has none.
func (m *meter) hasKey(object any, key string) (bool, error) {
	if err := m.process(len(key)); err != nil {
		return false, err
	}
	keys, isObject := object.(map[string]any)
	if !isObject && object != nil {
		return false, errors.New("takes an object and a text")
	}
	_, has := keys[key]
	return has, nil
}

// calculate returns a function of two or more whole numbers.
func calculate(f func(a, b int64) (int64, error)) func(a, b any, more ...any) (int64, error) {
	return func(a, b any, more ...any) (int64, error) {
		result, isNumber := whole(a).(int64)
		for _, next := range append([]any{b}, more...) {
			number, isNextNumber := whole(next).(int64)
			if !isNumber || !isNextNumber {
				return 0, errors.New("takes whole numbers")
			}
			var err error
			if result, err = f(result, number); err != nil {
				return 0, err
			}
		}
		return result, nil
	}
}

func divide(a, b int64) (int64, error) {
	if b == 0 {
		return 0, errors.New("divides by 0")
	}
	return a / b, nil
}

// sizeOf estimates the size of a value in bytes.
func sizeOf(value any) int {
	size := itemBytes
	switch v := value.(type) {
	case string:
		size += len(v)
	case map[string]any:
		for key, item := range v {
			size += len(key) + sizeOf(item)
		}
	case []any:
		for _, item := range v {
			size += sizeOf(item)
		}
	case []string:
		for _, item := range v {
			size += itemBytes + len(item)
		}
	}
	return size
}

// print joins texts. Unlike the function of text/template, it adds no spaces.
func (m *meter) print(args ...any) (string, error) {
	var joined strings.Builder
	for _, arg := range args {
		s, err := m.read(arg)
		if err != nil {
			return "", err
		}
		joined.WriteString(s)
	}
	return m.made(joined.String())
}

// printf writes texts, numbers, true or false for %s, %v and %d, and quotes them for %q. It accepts
// no flags, width or precision, so that a number in the format cannot produce a long text.
func (m *meter) printf(format string, args ...any) (string, error) {
	if err := m.process(len(format)); err != nil {
		return "", err
	}
	var made strings.Builder
	for {
		text, rest, more := strings.Cut(format, "%")
		made.WriteString(text)
		switch {
		case !more && len(args) > 0:
			return "", errors.New("has more arguments than verbs")
		case !more:
			return m.made(made.String())
		case strings.HasPrefix(rest, "%"):
			made.WriteByte('%')
			format = rest[1:]
			continue
		case rest == "" || !strings.ContainsRune("svdq", rune(rest[0])):
			return "", errors.New("takes %s, %v, %d, %q and %%, without flags, width and precision")
		case len(args) == 0:
			return "", errors.New("has fewer arguments than verbs")
		}
		arg, err := m.read(args[0])
		if err != nil {
			return "", err
		}
		if rest[0] == 'q' {
			arg = strconv.Quote(arg)
		}
		made.WriteString(arg)
		format, args = rest[1:], args[1:]
	}
}
