// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

// replacements are an Inserter: values by their scalars.
type replacements map[string]any

// Value implements Inserter.
func (r replacements) Value(scalar string) (any, error) {
	if value, has := r[scalar]; has {
		return value, nil
	}
	return scalar, nil
}

// Text implements Inserter.
func (r replacements) Text(scalar string) (string, error) {
	value, has := r[scalar]
	if !has {
		return scalar, nil
	}
	text, isText := value.(string)
	if !isText {
		return "", errors.New("is no text")
	}
	return text, nil
}

func TestParseAndInsert(t *testing.T) {
	object := map[string]any{"b": []any{int64(1), "+text"}}
	inserter := replacements{"+text": "a: 1\n- b", "+object": object, "+number": int64(3)}
	tests := []struct {
		name, document string
		want           map[string]any
		says           string
	}{
		{"texts", "{a: x, b: '+text'}", map[string]any{"a": "x", "b": "a: 1\n- b"}, ""},
		{"plain scalars", "{a: +text, b: [+object, +number]}", map[string]any{"a": "a: 1\n- b", "b": []any{object, int64(3)}}, ""},
		{"an object as the document", "+object", object, ""},
		{"a key", "+text: 1", map[string]any{"a: 1\n- b": int64(1)}, ""},
		{"nothing", "# a", map[string]any{}, ""},
		{"a text as the document", "+text", nil, "not an object"},
		{"a number as the document", "+number", nil, "not an object"},
		{"an object in quotes", "a: '+object'", nil, "is no text"},
		{"a number as a key", "+number: 1", nil, "is no text"},
		{"a key twice", "{+text: 1, \"a: 1\\n- b\": 2}", nil, "the key a: 1\n- b twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseAndInsert(test.document, inserter)

			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("error is %v, want one containing %q", err, test.says)
				}
				return
			}
			expect.NoError(t, err)
			expect.Equal(t, "values", test.want, got)
		})
	}
}

// TestInsertedValuesAreCopies: a change of the values does not change the inserted objects.
func TestInsertedValuesAreCopies(t *testing.T) {
	object := map[string]any{"a": []any{"b"}}
	got, err := ParseAndInsert("{a: +, b: +}", replacements{"+": object})
	expect.NoError(t, err)

	got["a"].(map[string]any)["a"] = "changed" //nolint:forcetypeassert // It fails the test.

	expect.Equal(t, "the inserted object", map[string]any{"a": []any{"b"}}, object)
	expect.Equal(t, "its other copy", any(object), got["b"])
}

func TestInsertedValuesBeyondLimitsAreRefused(t *testing.T) {
	nested := any("a")
	for range 60 {
		nested = []any{nested}
	}
	many := make([]any, 15_000)
	inserter := replacements{
		"+long": strings.Repeat("x", 600<<10), "+many": many, "+nested": nested, "+list": []any{strings.Repeat("x", 600<<10)},
		"+key": strings.Repeat("k", 1025), "+object": map[string]any{strings.Repeat("k", 1025): nil},
	}
	tests := map[string]struct{ document, says string }{
		"bytes":              {"[+long, +long]", "614400 bytes"},
		"bytes of quotes":    {"['+long', '+long']", "614400 bytes"},
		"bytes of lists":     {"[+list, +list]", "bytes"},
		"nodes":              {"[+many, +many]", "keys, scalars, lists and objects"},
		"depth":              {strings.Repeat("[", 41) + "+nested" + strings.Repeat("]", 41), "it has 101 lists and objects within each other"},
		"a key":              {"+key: 1", "a key of 1025 bytes"},
		"a key of an object": {"a: +object", "a key of 1025 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseAndInsert(test.document, inserter)

			var limit *limitError
			if !errors.As(err, &limit) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error is %v, want one containing %q", err, test.says)
			}
		})
	}
}
