// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/sandbox"
)

func object() map[string]any {
	return map[string]any{"spec": map[string]any{"text": secret, "size": int64(3), "list": []any{"a", int64(1)}, "object": map[string]any{"a": secret}}}
}

// TestDocumentHasNoValues: the YAML of a document has only placeholders, which Value and Text
// replace.
func TestDocumentHasNoValues(t *testing.T) {
	document, err := sandbox.RenderDocument(
		"a: {{ .spec.text }}\nb: {{ .spec.list }}{{ range .spec.object }}\nc: {{ . }}{{ end }}\nd:{{ toYaml .spec.object | nindent 2 }}", object())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(document.YAML, secret) {
		t.Errorf("the YAML has a value: %s", document.YAML)
	}
	lines := strings.Split(document.YAML, "\n")
	var shown []string
	var values []any
	for _, line := range lines {
		shown = append(shown, document.Show(line))
		value, err := document.Value(strings.TrimSpace(line[strings.Index(line, " ")+1:]))
		if err != nil {
			t.Error(err)
		}
		values = append(values, value)
	}
	if diff := cmp.Diff([]string{"a: {{ .spec.text }}", "b: {{ .spec.list }}", "c: {{ . }}", "d:", "  {{ toYaml .spec.object | nindent 2 }}"}, shown); diff != "" {
		t.Errorf("shown lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{secret, []any{"a", int64(1)}, secret, "d:"}, values[:4]); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}

	text, err := document.Text("d" + strings.TrimSpace(lines[4]))

	if err != nil || text != "da: "+secret {
		t.Errorf("text %q, error %v", text, err)
	}
	if _, err := document.Text(lines[1]); err == nil || !strings.HasPrefix(err.Error(), "{{ .spec.list }} is an object or a list") {
		t.Errorf("error of a list in a text: %v", err)
	}
}

// TestCheckDocument: errors that do not depend on the data are found without data.
func TestCheckDocument(t *testing.T) {
	tests := map[string]struct{ template, want string }{
		"valid":             {"a: {{ .spec.text }}", ""},
		"syntax":            {"a: 1\nb: {{ .spec", "line 2: unclosed action"},
		"a function":        {`a: {{ lookup "v1" "Secret" "a" "b" }}`, `line 1: function "lookup" not defined: the functions are `},
		"insertion":         {`a: {{ _insert 0 .spec }}`, `line 1: function "_insert" not defined`},
		"a definition":      {`{{ define "a" }}{{ end }}`, "define, block and template are not available"},
		"computed spaces":   {"a: {{ .spec.text | nindent (len .spec.text) }}", "nindent (len .spec.text): the number of spaces must be written in the template"},
		"spaces of a value": {"{{ range $i, $v := .spec.list }}{{ indent $i $v }}{{ end }}", "indent $i $v: the number of spaces must be written in the template"},
		"a placeholder":     {"a: \uE0000\uE001", "the characters U+E000 and U+E001 are not available"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := sandbox.CheckDocument(test.template)

			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestDocumentErrorsShowNoValue(t *testing.T) {
	tests := map[string]struct{ template, want string }{
		"a missing value":     {"a:\n  {{ .spec.none }}", "line 2: {{ .spec.none }}: has no value: use default, if or with"},
		"a missing argument":  {"a: {{ upper .spec.none }}", "line 1: <upper .spec.none>: error calling upper: has no value"},
		"half a character":    {`a: {{ slice "é" 0 1 }}`, `line 1: {{ slice "é" 0 1 }}: the text is not valid UTF-8`},
		"a field of a text":   {"a: {{ .spec.text.b }}", "line 1: <.spec.text.b>: can't evaluate field b"},
		"a number with parts": {"a: {{ 1i }}", "line 1: <_insert 0>: error calling _insert: takes a text, a number"},
		"a missing spaces":    {"a: {{ .spec.text | indent }}", "line 1: <indent>: wrong number of args for indent"},
		"many spaces":         {"a: {{ indent 101 .spec.text }}", "takes 0 to 100 spaces"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := sandbox.RenderDocument(test.template, object())

			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

// TestHostileDocumentsStayWithinLimits renders the hostile templates as YAML.
func TestHostileDocumentsStayWithinLimits(t *testing.T) {
	tests := hostile()
	tests["a loop of output"] = struct{ template, want string }{"{{range 9000}}" + strings.Repeat("x", 1000) + "{{end}}", "the rendered YAML has more than 1000000 bytes"}
	tests["quotes of quotes"] = struct{ template, want string }{`{{$s := "\"\\\""}}{{range 60}}{{$s = print (quote $s)}}{{end}}`, tooManyBytes}
	tests["JSON of JSON"] = struct{ template, want string }{`{{$s := "\"\\\""}}{{range 60}}{{$s = print (toJson $s)}}{{end}}`, tooManyBytes}
	tests["spaces of spaces"] = struct{ template, want string }{`{{$s := "\n\n"}}{{range 60}}{{$s = nindent 100 $s | replace " " "\n"}}{{end}}`, tooManyBytes}
	tests["a large insertion"] = struct{ template, want string }{`{{$s := "` + strings.Repeat("x", 200_000) + `"}}{{range 9000}}{{$s}}{{end}}`, tooManyBytes}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := sandbox.RenderDocument(test.template, map[string]any{"Values": data().Values})
			runtime.ReadMemStats(&after)

			if name == "a loop of values" || name == "a template too large" || name == "a text that JSON enlarges" {
				test.want = "" // The limits of documents differ: a document is smaller, and is not stored as JSON.
			}
			if err == nil && test.want != "" || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > maxMemory {
				t.Errorf("allocated %d MiB", took>>20)
			}
		})
	}
}

// FuzzRenderDocument checks arbitrary templates: a rendering ends within its limits, and neither
// the YAML nor an error has a value.
func FuzzRenderDocument(f *testing.F) {
	for _, test := range hostile() {
		if len(test.template) < 10_000 {
			f.Add(test.template)
		}
	}
	f.Add(`{{ range $k, $v := .Values }}{{ $k }}: {{ $v | default "x" | quote }}{{ end }}{{ toYaml .Values | trim | nindent 2 }}`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, secret) {
			t.Skip("the template has the value itself")
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		document, err := sandbox.RenderDocument(text, map[string]any{"Values": map[string]any{secret: []any{secret, map[string]any{secret: nil}}, "a": secret}})
		runtime.ReadMemStats(&after)

		if took := after.TotalAlloc - before.TotalAlloc; took > maxMemory {
			t.Errorf("allocated %d MiB", took>>20)
		}
		if err != nil {
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("error is %q", err)
			}
			return
		}
		if strings.Contains(document.YAML, secret) || len(document.YAML) > sandbox.MaxBytes {
			t.Errorf("the YAML has a value, or is too large: %.1000q", document.YAML)
		}
	})
}
