// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
)

// valuesTemplate parses the template of values. Its lines may be indented by tabs.
func valuesTemplate(t *testing.T, text string) *file.ValuesTemplate {
	t.Helper()
	template, err := file.ParseValuesTemplate(strings.ReplaceAll(text, "\t", ""))
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func TestValues(t *testing.T) {
	spec := map[string]any{
		"size": int64(3), "ratio": 0.5, "on": true, "version": "1.60", "empty": "", "motd": "a: b\n# c\n",
		"image": map[string]any{"tag": "1.6", "tls": map[string]any{"enabled": false}}, "args": []any{"-v", nil, int64(2)}, "hosts": []any{"a.example.com", "b.example.com"},
	}
	tests := []struct {
		name, template string
		want           map[string]any
	}{
		{"spec", "{{ .spec }}", spec},
		{"spec by toYaml", "{{ toYaml .spec }}", spec},
		{"types", "a: {{ .spec.size }}\nb: {{ .spec.ratio }}\nc: {{ .spec.on }}\nd: {{ .spec.args }}\ne: {{ .spec.image }}", map[string]any{
			"a": int64(3), "b": 0.5, "c": true, "d": spec["args"], "e": spec["image"],
		}},
		{"a text that looks like a number", "a: {{ .spec.version }}\nb: {{ .spec.version | quote }}", map[string]any{"a": "1.60", "b": "1.60"}},
		{"an empty text", "a: {{ .spec.empty }}", map[string]any{"a": ""}},
		{"quotes", `{a: "{{ .spec.size }}", b: '{{ .spec.on }}', c: {{ quote .spec.size }}}`, map[string]any{"a": "3", "b": "true", "c": "3"}},
		{"parts of a text", `{a: {{ .metadata.name }}-{{ .spec.size }}, b: "{{ .metadata.name }}.svc", c: '{{ .spec.version }}''s'}`, map[string]any{
			"a": "cache-3", "b": "cache.svc", "c": "1.60's",
		}},
		{"text of the file", "a: 1_000\nb: yes\nc: null\nd: 2001-01-01\ne: {{ .spec.size }}", map[string]any{
			"a": int64(1000), "b": true, "c": nil, "d": "2001-01-01", "e": int64(3),
		}},
		{"a block", "a: |\n  name={{ .metadata.name }}\n  {{ .spec.motd }}", map[string]any{"a": "name=cache\na: b\n# c\n"}},
		{"nindent", "a:\n  {{- toYaml .spec.image | nindent 2 }}\nb: 1", map[string]any{"a": spec["image"], "b": int64(1)}},
		{"indent", "a:\n{{ toYaml .spec.args | trim | indent 2 }}\nb:\n{{ indent 2 .spec.motd }}", map[string]any{"a": spec["args"], "b": spec["motd"]}},
		{"YAML in a block", "a: |\n  {{- toYaml .spec.image.tls | nindent 2 }}\n  b: 1\n", map[string]any{"a": "enabled: false\nb: 1\n"}},
		{"JSON in a text", `a: '{{ toJson .spec.image }}'`, map[string]any{"a": `{"tag":"1.6","tls":{"enabled":false}}`}},
		{"JSON", `a: {{ toJson .spec.args }}`, map[string]any{"a": spec["args"]}},
		{"a function of YAML", `a: {{ printf "%s!" (toJson .spec.args) }}`, map[string]any{"a": `["-v",null,2]!`}},
		{"default", "{a: {{ .spec.port | default 11211 }}, b: {{ .spec.none.none | default .spec.size }}}", map[string]any{"a": int64(11211), "b": int64(3)}},
		{"with", "{{ with .spec.none }}a: {{ . }}{{ end }}\n{{- with .spec.size }}\nb: {{ . }}{{ end }}", map[string]any{"b": int64(3)}},
		{"if", "{{ if .spec.none }}a: 1{{ else if hasKey .spec \"on\" }}b: 2{{ end }}", map[string]any{"b": int64(2)}},
		{"nothing", "{{ if .spec.none }}a: 1{{ end }}", map[string]any{}},
		{"range over a list", "hosts:\n{{- range $i, $host := .spec.hosts }}\n- {host: {{ $host }}, index: {{ $i }}}\n{{- end }}", map[string]any{"hosts": []any{
			map[string]any{"host": "a.example.com", "index": int64(0)}, map[string]any{"host": "b.example.com", "index": int64(1)},
		}}},
		{"range over an object", "{{ range $k, $v := .spec.image }}{{ $k }}: {{ $v }}\n{{ end }}a: 1", map[string]any{
			"tag": "1.6", "tls": map[string]any{"enabled": false}, "a": int64(1),
		}},
		{"arithmetic", "{a: {{ mul .spec.size 2 | add 1 }}, b: {{ sub 1 .spec.size }}, c: {{ div 7 .spec.size }}}", map[string]any{"a": int64(7), "b": int64(-2), "c": int64(2)}},
		{"lists of functions", `{a: {{ splitList "." "b.c" }}, b: {{ len .spec.hosts }}, c: {{ index "A" 0 }}}`, map[string]any{
			"a": []any{"b", "c"}, "b": int64(2), "c": int64(65),
		}},
		{"variables", "{{ $name := .metadata.name | upper }}{{ $name = print $name 1 }}a: {{ $name | trunc 4 }}", map[string]any{"a": "CACH"}},
		{"comments", "# {{ .metadata.name }}\na: 1 # {{ .spec.motd }}\n", map[string]any{"a": int64(1)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := valuesTemplate(t, test.template).Execute(resource(spec))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// TestValuesKeepTheirPlace: whatever a text of a resource has, the template determines the
// structure of the values.
func TestValuesKeepTheirPlace(t *testing.T) {
	template := valuesTemplate(t, `
plain: {{ .spec.text }}
part: a-{{ .spec.text }}-b
flow: {plain: {{ .spec.text }}, list: [{{ .spec.text }}, "{{ .spec.text }}"]}
double: "<{{ .spec.text }}>"
single: '{{ .spec.text }}'
block: |-
  <{{ .spec.text }}>
folded: >-
  <{{ .spec.text }}>
quote: {{ .spec.text | quote }}
json: {{ toJson .spec.text }}
yaml: {{ toYaml .spec.text | nindent 2 }}
object: {{ .spec.object }}
"key {{ .spec.text }}": 1
{{ .spec.text }} key: 2
# {{ .spec.text }}
end: 3
`)
	rapid.Check(t, func(r *rapid.T) {
		parts := []string{
			"\n", "\r", "\u0085", "\u2028", "\n  ", ": ", "- ", ", ", `"`, "'", `\`, "\n---\n", "\n...\n", "#", " # ", "{", "}", "[", "]", "&a ", "*a", "!!int ", "|", ">", "%", "@",
			"? ", "<<: ", "{{ .spec }}", "}}", "admin: true", "null", "~", "yes", "1", "0x1", "\ufeff", "\ue000", "\ue001", "\ue0000\ue001", "\x00", "\t", "é",
		}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 6).Draw(r, "parts"), "")
		if rapid.Bool().Draw(r, "any") {
			text += rapid.String().Draw(r, "text")
		}

		got, err := template.Execute(resource(map[string]any{"text": text, "object": map[string]any{text: text}}))
		if err != nil {
			r.Fatal(err)
		}

		want := map[string]any{
			"plain": text, "part": "a-" + text + "-b", "flow": map[string]any{"plain": text, "list": []any{text, text}}, "double": "<" + text + ">", "single": text,
			"block": "<" + text + ">", "folded": "<" + text + ">", "quote": text, "json": text, "yaml": text, "object": map[string]any{text: text},
			"key " + text: int64(1), text + " key": int64(2), "end": int64(3),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("values of %q (-want +got):\n%s", text, diff)
		}
	})
}

// TestValuesErrors: the output of a template for a resource can fail, and is limited. No error
// shows a value of the resource.
func TestValuesErrors(t *testing.T) {
	numbers := make([]any, 3000)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	deep := any("end")
	for range 200 {
		deep = []any{deep}
	}
	nested := any("end")
	for range 10 {
		nested = map[string]any{"a": nested}
	}
	spec := map[string]any{
		"numbers": numbers, "nested": nested, "deep": deep, "long": strings.Repeat("x", 600<<10), "text": "hunter2", "null": nil, "object": map[string]any{"size": "hunter2"},
		"lines": "hunter2\nhunter2: hunter2", strings.Repeat("k", 1025): "a",
	}
	const unusable = "the template gives YAML that cannot be used: "
	tests := []struct{ name, template, want string }{
		{"missing field", "a: 1\nb: {{ .spec.missing }}", "line 2: {{ .spec.missing }}: has no value: use default, if or with for a field that may be missing"},
		{"missing object", "b: {{ .status.a.b }}", "line 1: {{ .status.a.b }}: has no value"},
		{"missing argument", "b: {{ quote .spec.missing }}", "line 1: <quote .spec.missing>: error calling quote: has no value: use default"},
		{"null", "b: {{ .spec.null | toYaml }}", "line 1: {{ .spec.null | toYaml }}: has no value"},
		{"wrong type", "a: {{ add .spec.text 1 }}", "line 1: <add .spec.text 1>: error calling add: takes whole numbers"},
		{"division by 0", "a: {{ div 1 0 }}", "divides by 0"},
		{"field of a text", "a: {{ .spec.text.b }}", "line 1: <.spec.text.b>: can't evaluate field b"},
		{"range over a text", "a: {{ range .spec.text }}{{ end }}", "line 1: range takes an object, a list or a number, not the value of .spec.text"},
		{"list", "{{ .spec.numbers }}", unusable + "it is not an object (key: value)"},
		{"text", "{{ .spec.text }}", unusable + "it is not an object (key: value)"},
		{"text of lines", "{{ .spec.lines }}", unusable + "it is not an object (key: value)"},
		{"no YAML", "a: {{ .spec.text }}\nb: {{ .spec.text }}: c", unusable + `it cannot be parsed: yaml: line 2: mapping values are not allowed in this context in "b: {{ .spec.text }}: c"`},
		{"object in quotes", `a: "{{ .spec.object }}"`, unusable + "{{ .spec.object }} is an object or a list, which cannot be part of a text: write it alone, without quotes, or use toJson"},
		{"list in a text", "a: b-{{ .spec.numbers }}", unusable + "{{ .spec.numbers }} is an object or a list"},
		{"object as a key", "{{ .spec.object }}: b", unusable + "{{ .spec.object }} is an object or a list"},
		{"key of the file twice", "a: {{ .spec.text }}\na: 2", unusable + "it cannot be parsed: "},
		{"inserted key twice", "{{ range $k, $v := .spec.object }}{{ $k }}: {{ $v }}\n{{ end }}size: 1", unusable + `it has the key {{ $k }} twice`},
		{"key of values twice", "{{ .spec.text }}: 1\n{{ .spec.text | lower }}: 2", unusable + `it has the key {{ .spec.text | lower }} twice`},
		{"two objects below a key", "a:\n  {{- toYaml .spec.object | nindent 2 }}\n  {{- toYaml .spec.object | nindent 2 }}", unusable + "{{ toYaml .spec.object | nindent 2 }} is an object or a list beside something else"},
		{"object below a text", "a:\n  b: 1\n  {{- toYaml .spec.object | nindent 4 }}", unusable + "{{ toYaml .spec.object | nindent 4 }} is an object or a list beside something else"},
		{"anchor", "a: &a {{ .spec.text }}\nb: *a", unusable + `line 1 has an anchor (&) or an alias (*), which are not supported; write the value in full, or quote it if it is a text in "a: &a {{ .spec.text }}"`},
		{"half a character", `a: {{ slice "é" 0 1 }}`, "line 1: {{ slice \"é\" 0 1 }}: the text is not valid UTF-8"},
		{"steps", "a: {{ range .spec.numbers }}{{ range $.spec.numbers }}{{ end }}{{ end }}", "the templates take more than 100000 steps"},
		{"bytes of functions", `{{ $a := .spec.long }}{{ range 9 }}{{ $a = print $a $a }}{{ end }}a: {{ $a }}`, "the functions process more than 16777216 bytes"},
		{"bytes of values", "a: [{{ range 50 }}{{ $.spec.long }}, {{ end }}]", "the functions process more than 16777216 bytes"},
		{"bytes of YAML", "{{ range .spec.numbers }}" + strings.Repeat("x", 400) + "{{ end }}a: 1", "the rendered YAML has more than 1000000 bytes"},
		{"many values", "a: [{{ range 8 }}{{ $.spec.numbers }}, {{ end }}]", unusable + "it has 3000 keys, scalars, lists and objects"},
		{"many nodes", "a: [{{ range 21000 }}a,{{ end }}]", unusable + "it has 21003 keys, scalars, lists and objects"},
		{"many bytes", "a: {{ .spec.long }}\nb: {{ .spec.long }}", unusable + "it has 614400 bytes"},
		{"many bytes in a text", `a: "{{ .spec.long }}{{ .spec.long }}"`, unusable + "it has 1228800 bytes"},
		{"depth", "a: {{ .spec.deep }}", unusable + "it has 201 lists and objects within each other, and may have 100"},
		{"depth of the template", "a: " + strings.Repeat("[", 90) + "{{ .spec.nested }}" + strings.Repeat("]", 90), unusable + "it has 101 lists and objects within each other"},
		{"key", "{{ .spec }}", unusable},
		{"inserted key", `"{{ range $k, $v := .spec }}{{ $k }}{{ end }}": 1`, unusable + "it has a key of 1065 bytes, and a key may have 1024"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := valuesTemplate(t, test.template).Execute(resource(spec))
			runtime.ReadMemStats(&after)

			assertRuntimeError(t, err, "values of Memcached shop/cache: ", test.want)
			if err != nil && strings.Contains(err.Error(), "hunter2") || got != nil {
				t.Errorf("got %v, and the error shows a value: %v", got, err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
				t.Errorf("allocated %d MiB", took>>20)
			}
		})
	}
}
