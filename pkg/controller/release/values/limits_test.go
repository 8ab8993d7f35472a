// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/example/demoapp-controller/pkg/redact"
	"github.com/example/demoapp-controller/test/expect"
)

// allocated returns the number of bytes that a function allocates.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// laughs is a "billion laughs" document: it is small, and its aliases expand to a huge
// size.
func laughs() string {
	lines := []string{"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"}
	for i := 1; i < 9; i++ {
		lines = append(lines, fmt.Sprintf("a%d: &a%d [%s]", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", ")))
	}
	return strings.Join(lines, "\n")
}

func TestValuesBeyondLimitsAreRefused(t *testing.T) {
	const most = 1 << 20
	tests := map[string]struct{ text, says string }{
		"aliases that expand":            {laughs(), "line 1 has an anchor (&) or an alias (*)"},
		"an unused anchor":               {"a: 1\nb: &b 2", "line 2 has an anchor"},
		"an anchor of a key":             {"&a k: 1", "anchor"},
		"a merge key with an alias":      {"a: &a {b: 1}\nc:\n  <<: *a", "line 1 has an anchor"},
		"a list of zeros":                {"a: [" + strings.Repeat("0,", most/2-4) + "0]", "characters that structure YAML"},
		"a list of nulls in block style": {"a:\n" + strings.Repeat("- \n", most/3-2), "characters that structure YAML"},
		"more nodes than allowed":        {"a: [" + strings.Repeat("0,", maxValueNodes) + "0]", "keys, scalars, lists and objects"},
		"a list of objects":              {"a: [" + strings.Repeat("{b},", 18_000) + "0]", "keys, scalars, lists and objects"},
		"too many bytes":                 {"a: " + strings.Repeat("x", most), "1048579 bytes"},
		"nested lists":                   {"a: " + strings.Repeat("[", 101) + strings.Repeat("]", 101), "more than 100 lists and objects deep"},
		"unterminated lists":             {"a: " + strings.Repeat("[", 9000), "cannot be parsed"},
		"nested block lists":             {strings.Repeat("- ", 9000), "more than 100 lists and objects deep"},
		"nested keys":                    {strings.Repeat("? ", 9000), "more than 100 lists and objects deep"},
		"a huge key":                     {"? " + strings.Repeat("k", 2000) + "\n: 1", "a key of 2000 bytes"},
		"a duplicate key":                {"a: 1\na: 2", "already set"},
		"duplicate keys in a large text": {strings.Repeat(strings.Repeat("k", 1000)+": 1\n", 900), "already set"},
		"control characters":             {"a: \x00", "cannot be parsed"},
		"NaN":                            {"a: .nan", "cannot be parsed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocated(func() { _, err = newBudget().parse(test.text) })
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error is %v, want one containing %q", err, test.says)
			}
			if took > maxParseMemory {
				t.Errorf("allocated %d MiB", took>>20)
			}
		})
	}
}

func TestValuesWithinLimitsAreAccepted(t *testing.T) {
	const most = 1 << 20
	script := strings.Repeat("  echo a && b || c * 2 > /dev/null # [x]\n", 20_000)
	tests := map[string]struct {
		text string
		want map[string]any
	}{
		"ampersands and asterisks in texts": {
			"cron: '*/5 * * * *'\nplain: a && b\nglob: x/*\nquoted: \"&x *y\"\n",
			map[string]any{"cron": "*/5 * * * *", "plain": "a && b", "glob": "x/*", "quoted": "&x *y"},
		},
		"a long script":                {"run: |\n" + script, map[string]any{"run": strings.ReplaceAll(script, "  echo", "echo")}},
		"a long text":                  {"a: " + strings.Repeat("x", most-3), map[string]any{"a": strings.Repeat("x", most-3)}},
		"a text that JSON escapes":     {"a: '" + strings.Repeat("<", most-5) + "'", map[string]any{"a": strings.Repeat("<", most-5)}},
		"a merge key without an alias": {"a: {<<: {b: 1}, c: 2}", map[string]any{"a": map[string]any{"b": int64(1), "c": int64(2)}}},
		"words of YAML 1.1":            {"a: yes\nb: 0777\nc: 1_000", map[string]any{"a": true, "b": int64(511), "c": int64(1000)}},
		"nested lists":                 {"a: " + strings.Repeat("[", 3) + strings.Repeat("]", 3), map[string]any{"a": []any{[]any{[]any{}}}}},
		"JSON":                         {`{"a": {"b": [1, "x:y,z"]}}`, map[string]any{"a": map[string]any{"b": []any{int64(1), "x:y,z"}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got map[string]any
			var err error
			took := allocated(func() { got, err = newBudget().parse(test.text) })
			expect.NoError(t, err)
			expect.Equal(t, "values", test.want, got)
			if took > maxParseMemory {
				t.Errorf("allocated %d MiB", took>>20)
			}
		})
	}
}

// TestValuesTakeLittleMemory: the largest accepted values, and the redactor for them,
// stay within the memory limit.
func TestValuesTakeLittleMemory(t *testing.T) {
	const most = 1 << 20
	tests := map[string]string{
		"objects of one key": "a: [" + strings.Repeat("{b: c},", 6_600) + "0]",
		"empty objects":      "a: [" + strings.Repeat("{},", 19_000) + "0]",
		"long texts":         "a: [" + strings.Repeat(strings.Repeat("x", 100)+",", 9_999) + "0]",
		"one text":           "a: " + strings.Repeat("\\", most-3),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)

			values, err := newBudget().parse(text)
			expect.NoError(t, err)
			all := Merge(nil, values)
			shown := redact.New(textsIn(all, nil))

			runtime.GC()
			runtime.ReadMemStats(&after)
			if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 20<<20 {
				t.Errorf("%d MiB are kept", kept>>20)
			}
			runtime.KeepAlive(all)
			runtime.KeepAlive(shown)
		})
	}
}

// FuzzValues: parsing any document does not panic, takes bounded memory, and makes no
// more values than the document has nodes.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{
		"a: 1\nb: {c: [x, 2.5, true]}", `{"a": 1000000}`, laughs(), "a: &a [1]\nb: *a", "<<: {a: 1}", "? a\n: b", "- - - a", "a: |\n  b\n c",
		"[[[[", "{a: {a: {a: ", "a: !!binary aGk=", "%TAG ! x\n---\na: 1", "a: 1\n---\nb: *c", "a: '*b'", "a: \"\\x41\"", "? ? ? a", "{a,b,c}", "[a: b, c: d]",
		"a: 2001-01-01", "a: .inf", "\ufeffa: 1", "a:\u0085b: 1", "a: 0x10\nb: 0b1\nc: 1e999", "!!map {a: 1}", "&x", "*", "a: !!set {b, c}", "a: !!omap [b: 1]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxValueBytes {
			t.Skip("larger than a ConfigMap can be")
		}
		budget := newBudget()
		var values map[string]any
		var err error
		if took := allocated(func() { values, err = budget.parse(text) }); took > maxParseMemory {
			t.Errorf("allocated %d MiB", took>>20)
		}
		checkMarks(t, text)
		if err != nil {
			return
		}
		if made, had := valuesIn(values), maxValueNodes-budget.nodes; made > max(had, 1) {
			t.Errorf("made %d values of %d nodes", made, had)
		}
	})
}

// checkMarks checks that the characters counted before parsing bound the number of nodes.
func checkMarks(t *testing.T, text string) {
	t.Helper()
	marks := nodeMarks(text)
	var document yamlv3.Node
	if marks > maxNodeMarks || yamlv3.Unmarshal([]byte(text), &document) != nil {
		return
	}
	nodes := 0
	var limit *limitError
	if err := checkNode(&document, 0, &nodes); err != nil && !errors.As(err, &limit) {
		t.Errorf("unexpected error %v", err)
	}
	if nodes > 2*marks+2 {
		t.Errorf("%d nodes with %d marks", nodes, marks)
	}
}

// valuesIn counts keys, scalars, lists and objects.
func valuesIn(value any) int {
	count := 1
	switch value := value.(type) {
	case map[string]any:
		for _, item := range value {
			count += 1 + valuesIn(item)
		}
	case []any:
		for _, item := range value {
			count += valuesIn(item)
		}
	}
	return count
}
