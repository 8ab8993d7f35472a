// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/redact"
)

// allocated is how many bytes a function allocates.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// laughs is a small document whose aliases expand to any size.
func laughs() string {
	lines := []string{"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"}
	for i := 1; i < 9; i++ {
		lines = append(lines, fmt.Sprintf("a%d: &a%d [%s]", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", ")))
	}
	return strings.Join(lines, "\n")
}

func TestValuesBeyondTheLimitsAreRefused(t *testing.T) {
	const most = 1 << 20
	tests := map[string]struct{ text, says string }{
		"aliases that expand":      {laughs(), "line 1 has an anchor (&) or an alias (*)"},
		"an unused anchor":         {"a: 1\nb: &b 2", "line 2 has an anchor"},
		"an anchor of a key":       {"&a k: 1", "anchor"},
		"a merge of an alias":      {"a: &a {b: 1}\nc:\n  <<: *a", "line 1 has an anchor"},
		"zeros":                    {"a: [" + strings.Repeat("0,", most/2-4) + "0]", "characters that structure YAML"},
		"zeros in lines":           {"a:\n" + strings.Repeat("- \n", most/3-2), "characters that structure YAML"},
		"more nodes than allowed":  {"a: [" + strings.Repeat("0,", maxValueNodes) + "0]", "keys, scalars, lists and objects"},
		"objects":                  {"a: [" + strings.Repeat("{b},", 18_000) + "0]", "keys, scalars, lists and objects"},
		"too many bytes":           {"a: " + strings.Repeat("x", most), "1048579 bytes"},
		"lists in lists":           {"a: " + strings.Repeat("[", 101) + strings.Repeat("]", 101), "more than 100 lists and objects deep"},
		"lists that do not end":    {"a: " + strings.Repeat("[", 9000), "cannot be parsed"},
		"dashes":                   {strings.Repeat("- ", 9000), "more than 100 lists and objects deep"},
		"question marks":           {strings.Repeat("? ", 9000), "more than 100 lists and objects deep"},
		"a huge key":               {"? " + strings.Repeat("k", 2000) + "\n: 1", "a key of 2000 bytes"},
		"a key twice":              {"a: 1\na: 2", "already set"},
		"a key twice, a huge text": {strings.Repeat(strings.Repeat("k", 1000)+": 1\n", 900), "already set"},
		"control characters":       {"a: \x00", "cannot be parsed"},
		"no number of JSON":        {"a: .nan", "cannot be parsed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocated(func() { _, err = newValueBudget().parse(test.text) })
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error is %v, want one that says %q", err, test.says)
			}
			if took > maxParseMemory {
				t.Errorf("allocated %d MiB", took>>20)
			}
		})
	}
}

func TestValuesWithinTheLimitsAreTaken(t *testing.T) {
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
		"a long script":     {"run: |\n" + script, map[string]any{"run": strings.ReplaceAll(script, "  echo", "echo")}},
		"a long text":       {"a: " + strings.Repeat("x", most-3), map[string]any{"a": strings.Repeat("x", most-3)}},
		"a text to escape":  {"a: '" + strings.Repeat("<", most-5) + "'", map[string]any{"a": strings.Repeat("<", most-5)}},
		"a merge in place":  {"a: {<<: {b: 1}, c: 2}", map[string]any{"a": map[string]any{"b": int64(1), "c": int64(2)}}},
		"words of YAML 1.1": {"a: yes\nb: 0777\nc: 1_000", map[string]any{"a": true, "b": int64(511), "c": int64(1000)}},
		"lists in lists":    {"a: " + strings.Repeat("[", 3) + strings.Repeat("]", 3), map[string]any{"a": []any{[]any{[]any{}}}}},
		"JSON":              {`{"a": {"b": [1, "x:y,z"]}}`, map[string]any{"a": map[string]any{"b": []any{int64(1), "x:y,z"}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got map[string]any
			var err error
			took := allocated(func() { got, err = newValueBudget().parse(test.text) })
			must(t, err)
			equal(t, "values", test.want, got)
			if took > maxParseMemory {
				t.Errorf("allocated %d MiB", took>>20)
			}
		})
	}
}

// TestValuesTakeLittleMemory: what is kept of the largest values that are taken, with
// what is made of them to redact messages.
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

			values, err := newValueBudget().parse(text)
			must(t, err)
			all := merged(nil, values)
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

// TestLimitsHoldForAllSourcesTogether: sources that are within the limits each are
// refused from the one on that exceeds them, and deployed once they fit.
func TestLimitsHoldForAllSourcesTogether(t *testing.T) {
	tests := map[string]struct{ text, says string }{
		"bytes": {"a: " + strings.Repeat("x", 400_000), "it has 400003 bytes, and all values of a DemoApp together may have 1048576, of which 248570 are left"},
		"nodes": {"a: [" + strings.Repeat("0,", 8_000) + "0]", "it has 8004 keys, scalars, lists and objects, and all values of a DemoApp together may have 20000, of which 3992 are left"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			data, references := map[string]string{}, []releasev1alpha1.ValuesReference{}
			for i := range 16 {
				key := fmt.Sprintf("k%d", i)
				data[key] = test.text
				references = append(references, releasev1alpha1.ValuesReference{Kind: releasev1alpha1.ValuesFromConfigMap, Name: "base", Key: key})
			}
			w.configMap(data)
			w.create(newApp("a", valuesFrom(references...)))
			w.passes("a", controller.SpecChange)
			equal(t, "conditions", conditions("Ready", "False ValuesInvalid", "Stalled", "True ValuesInvalid", "Deployed", "False ValuesInvalid"), w.conditions("a"))
			contains(t, "message", w.message("a", apimeta.ConditionReady), `valuesFrom[2]: Key "k2" of ConfigMap "base" cannot be used: `+test.says)

			w.change("a", valuesFrom(references[:2]...))
			w.passes("a", controller.SpecChange)
			equal(t, "Ready of two", "True Healthy", w.conditions("a")["Ready"])
		})
	}
}

func TestAnchorsInASecretAreRefused(t *testing.T) {
	w := newWorld(t)
	w.private("password: &hidden-secret hunter22\nagain: *hidden-secret")
	w.create(newApp("a", valuesFrom(secretValues)))
	w.passes("a", controller.SpecChange)
	equal(t, "message", `valuesFrom[0]: Key "more" of Secret "private" cannot be used: line 1 has an anchor (&) or an alias (*), `+
		`which are not supported; write the value in full, or quote it if it is a text`, w.message("a", apimeta.ConditionStalled))
	w.private("password: hunter22")
	w.passes("a", controller.SpecChange)
	equal(t, "Ready of the value in full", "True Healthy", w.conditions("a")["Ready"])
}

// TestSourcesKeepWithinTheirLimit: the largest objects are read again in each pass, and
// small ones of others stay.
func TestSourcesKeepWithinTheirLimit(t *testing.T) {
	w := newWorld(t)
	w.controller.sources.limit = 1000
	w.configMap(map[string]string{"values.yaml": "a: " + strings.Repeat("x", 2000)})
	w.private("b: small")
	w.create(newApp("big", valuesFrom(configMapValues)))
	w.create(newApp("small", valuesFrom(secretValues)))
	w.passes("small", controller.SpecChange)
	w.passes("big", controller.SpecChange)
	w.calls.take()

	w.passes("small", controller.PeriodicResync)
	w.passes("big", controller.PeriodicResync)

	equal(t, "requests", []string{"get configmaps base"}, w.calls.take())
	equal(t, "bytes kept", len("b: small"), w.controller.sources.kept)
	for _, name := range []string{"small", "big"} {
		w.change(name, valuesFrom())
		w.passes(name, controller.SpecChange)
	}
	equal(t, "bytes kept in the end", 0, w.controller.sources.kept)
}

// FuzzValues: whatever a document holds, parsing it does not panic, takes bounded
// memory, and makes no more values than the document has nodes.
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
			t.Skip("longer than an object can be")
		}
		budget := newValueBudget()
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

// checkMarks holds that the characters that are counted before a document is parsed
// bound its nodes.
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
