// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/sandbox"
)

// secret is a value that no error may show.
const secret = "hunter2"

func data() sandbox.Data {
	return sandbox.Data{
		Fields: map[string]string{"Environment": "prod", "Application": "shop", "Namespace": "team-a"},
		Values: map[string]any{
			"host": "db.example.com", "port": int64(5432), "hosts": "a,b", "empty": "", "password": secret, "ratio": 0.5, "tls": true,
			"server": map[string]any{"threads": int64(1_000_000), "paths": []any{"/a", "/b", int64(3)}},
		},
	}
}

func TestRender(t *testing.T) {
	tests := map[string]struct{ template, want string }{
		"text":                    {"a: b\n", "a: b\n"},
		"fields":                  {"{{ .Application }}.{{ .Namespace }} in {{ .Environment }}", "shop.team-a in prod"},
		"a value":                 {"host={{ .Values.host }}", "host=db.example.com"},
		"a condition":             {`{{ if eq .Environment "prod" }}warn{{ else }}debug{{ end }}`, "warn"},
		"a loop over values":      {"{{ range $k, $v := .Values }}{{ $k }} {{ end }}", "empty host hosts password port ratio server tls "},
		"a loop over a list":      {`{{ range splitList "," .Values.hosts }}<{{ . }}>{{ end }}`, "<a><b>"},
		"a loop over a number":    {"{{ range 3 }}{{ . }}{{ end }}", "012"},
		"nested loops":            {"{{ range $i := 2 }}{{ range 2 }}{{ $i }}{{ . }} {{ end }}{{ end }}", "00 01 10 11 "},
		"break and continue":      {"{{ range 9 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ if eq . 3 }}{{ break }}{{ end }}{{ . }}{{ end }}", "02"},
		"an empty loop":           {"{{ range 0 }}x{{ else }}none{{ end }}", "none"},
		"with":                    {"{{ with .Values }}{{ .port }}{{ end }}", "5432"},
		"default":                 {`{{ .Values.empty | default "x" }} {{ .Values.port | default "x" }} {{ index .Values "none" | default "y" }}`, "x 5432 y"},
		"quote":                   {`{{ .Values.host | quote }} {{ quote 5 }}`, `"db.example.com" "5"`},
		"case and space":          {`{{ upper "aB" }} {{ lower "aB" }} {{ trim " a " }}`, "AB ab a"},
		"prefix and suffix":       {`{{ trimPrefix "a" "ab" }} {{ trimSuffix "b" "ab" }} {{ hasPrefix "a" "ab" }} {{ hasSuffix "a" "ab" }}`, "b a true false"},
		"contains and replace":    {`{{ contains "b" "abc" }} {{ replace "." "-" .Values.host }}`, "true db-example-com"},
		"indent":                  {"a:{{ \"b\\nc\" | nindent 2 }}|{{ indent 1 \"d\" }}", "a:\n  b\n  c| d"},
		"lists":                   {`{{ splitList "," .Values.hosts | join "+" }}`, "a+b"},
		"JSON":                    {`{{ toJson "<a>" }} {{ toJson 5 }} {{ splitList "," .Values.hosts | toJson }}`, `"<a>" 5 ["a","b"]`},
		"JSON of an object":       {`{{ .Values.server | toJson }}`, `{"paths":["/a","/b",3],"threads":1000000}`},
		"numbers":                 {"{{ .Values.server.threads }} {{ .Values.ratio }} {{ .Values.tls }} {{ quote .Values.port }}", `1000000 0.5 true "5432"`},
		"a number in a condition": {"{{ if gt .Values.port 1024 }}high{{ end }}", "high"},
		"a loop over a JSON list": {"{{ range .Values.server.paths }}{{ . }};{{ end }}{{ join \",\" .Values.server.paths }}", "/a;/b;3;/a,/b,3"},
		"equality":                {`{{ eq "a" "b" "a" }} {{ eq 5432 .Values.port }} {{ .Values.tls | eq true }} {{ ne .Values.ratio 0.5 }}`, "true true true false"},
		"equality of nothing":     {`{{ eq (index .Values "none") "a" }} {{ ne (index .Values "none") .Values }} {{ eq nil nil }}`, "false true true"},
		"an item":                 {`{{ index .Values "server" "paths" 1 }} {{ index (splitList "," .Values.hosts) 0 }} {{ index .Values "server" | len }}`, "/b a 2"},
		"order of texts":          {`{{ lt "a" "b" }} {{ le "b" "b" }} {{ gt "a" "b" }} {{ ge "b" "b" }}`, "true true false true"},
		"order of numbers":        {`{{ lt 1 .Values.port }} {{ le .Values.ratio 0.4 }} {{ gt 2 1 }} {{ ge (len "ab") 3 }} {{ eq (index "a" 0) 97 }}`, "true false true false true"},
		"YAML":                    {"{{ toYaml .Values.server }}\na:{{ toYaml \"1\" | indent 1 }}", "paths:\n- /a\n- /b\n- 3\nthreads: 1000000\na: \"1\""},
		"arithmetic":              {`{{ add 1 .Values.port }} {{ sub 1 2 3 }} {{ mul 2 (len "ab") }} {{ div -7 2 }}`, "5433 -4 4 -3"},
		"a key":                   {`{{ hasKey .Values "tls" }} {{ hasKey .Values.server "none" }} {{ hasKey nil "a" }}`, "true false false"},
		"a short text":            {`{{ trunc 2 "abc" }} {{ trunc 5 "abc" }} {{ "éé" | trunc 3 }} {{ trunc 0 7 }}`, "ab abc é "},
		"print":                   {`{{ print .Application "-" .Environment }} {{ printf "%s:%s %d%% %q" .Values.host .Values.port 7 .Values.tls }}`, `shop-prod db.example.com:5432 7% "true"`},
		"text of another page":    {"é € \U0001F600", "é € \U0001F600"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := sandbox.Render(map[string]string{"app.yaml": test.template}, data())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"app.yaml": test.want}, got); diff != "" {
				t.Errorf("texts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderErrorNamesTemplate(t *testing.T) {
	tests := map[string]struct{ template, want string }{
		"syntax":                     {"a: 1\nb: {{ .Values.host\n", "app.yaml: line 3: unclosed action started at line 2"},
		"an end without a beginning": {"{{ end }}", "app.yaml: line 1: unexpected {{end}}"},
		"a missing value": {
			"a\n\n{{ .Values.none }}",
			`app.yaml: line 3: .Values.none is not set: add it to the values, or use index .Values "none" with default`,
		},
		"a missing field":        {"{{ .Secrets }}", `app.yaml: line 1: .Secrets is not set: add it to the values, or use index .Values "Secrets" with default`},
		"a field of a value":     {"{{ .Values.host.name }}", "app.yaml: line 1: <.Values.host.name>: can't evaluate field name in type interface {}"},
		"a function of Helm":     {`{{ env "HOME" }}`, `app.yaml: line 1: function "env" not defined: the functions are add, and, contains, default`},
		"a function of Go":       {`{{ call .Values.host }}`, `app.yaml: line 1: function "call" not defined`},
		"the function of ranges": {"{{ _step 0 }}", `app.yaml: line 1: function "_step" not defined`},
		"a definition":           {`{{ define "x" }}{{ end }}`, "app.yaml: define, block and template are not available: write the text where it is used"},
		"a block":                {`{{ block "x" . }}{{ end }}`, "app.yaml: define, block and template are not available"},
		"a recursive template":   {`{{ template "t" . }}`, "app.yaml: define, block and template are not available"},
		"a template that defines itself": {
			`{{ define "t" }}{{ if true }}{{ template "t" . }}{{ end }}{{ end }}`, "app.yaml: define, block and template are not available",
		},
		"a loop over a value":       {"{{ range .Values.password }}{{ end }}", "app.yaml: line 1: range takes an object, a list or a number, not the value of .Values.password"},
		"a loop with two variables": {"{{ range $a, $b := 7 }}{{ end }}", "app.yaml: line 1: range takes an object, a list or a number"},
		"a wrong argument":          {"{{ quote .Values }}", "app.yaml: line 1: <quote .Values>: error calling quote: takes a text, a number, true or false: use toJson for an object or list"},
		"a missing nested value":    {"{{ .Values.server.none }}", "app.yaml: line 1: .Values.server.none is not set: add it to the values"},
		"a list that is none":       {`{{ join "," .Values.port }}`, "error calling join: takes a list"},
		"too few arguments":         {`{{ printf "%s" }}`, "has fewer arguments than verbs"},
		"too many arguments":        {`{{ printf "%s" 1 2 }}`, "has more arguments than verbs"},
		"a width":                   {`{{ printf "%1000000d" 1 }}`, "takes %s, %v, %d, %q and %%, without flags, width and precision"},
		"a wide indent":             {`{{ indent 1000000 "a" }}`, "takes 0 to 100 spaces"},
		"texts and numbers":         {`{{ eq .Values.host 5 }}`, "error calling eq: takes two texts, two numbers of the same type, or two of true and false"},
		"equality of objects":       {`{{ ne .Values .Values }}`, "error calling ne: takes two texts, two numbers of the same type, or two of true and false"},
		"an item past the end":      {`{{ index (splitList "," .Values.hosts) 2 }}`, "error calling index: takes a position in the list or text, from 0 to its length less one"},
		"an item of a number":       {`{{ index .Values "port" "x" }}`, "error calling index: takes an object, a list or a text"},
		"a position in an object":   {`{{ index .Values 0 }}`, "error calling index: takes a text as the key of an object"},
		"equality of one value":     {`{{ eq .Values.host }}`, "error calling eq: takes at least two values"},
		"order of truth":            {`{{ lt true .Values.tls }}`, "error calling lt: takes two texts, or two numbers of the same type"},
		"arithmetic of a text":      {`{{ add .Values.host 1 }}`, "error calling add: takes whole numbers"},
		"arithmetic of a fraction":  {`{{ mul 2 .Values.ratio }}`, "error calling mul: takes whole numbers"},
		"division by 0":             {`{{ div 1 0 }}`, "error calling div: divides by 0"},
		"a key of a text":           {`{{ hasKey .Values.host "a" }}`, "error calling hasKey: takes an object and a text"},
		"a negative length":         {`{{ trunc -1 "a" }}`, "error calling trunc: takes a length of at least 0"},
		"half a character":          {`{{ slice "é" 0 1 }}`, "app.yaml: the text is not valid UTF-8: do not cut characters with slice"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := sandbox.Render(map[string]string{"app.yaml": test.template, "ok": "ok"}, data())

			var failed *sandbox.Error
			if got != nil || !errors.As(err, &failed) || failed.Key != "app.yaml" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500) {
				t.Errorf("error shows a value, or is not one short line: %v", err)
			}
		})
	}
}

const (
	tooManySteps = "the templates take more than 100000 steps"
	tooManyBytes = "the functions process more than 16777216 bytes"
	tooLarge     = "has more than 1000000 bytes as JSON"
)

// hostile returns templates that would run very long, or need a lot of memory.
func hostile() map[string]struct{ template, want string } {
	big := strings.Repeat("x", 200_000)
	loops := func(depth int, body string) string {
		return strings.Repeat("{{range 1000000}}", depth) + body + strings.Repeat("{{end}}", depth)
	}
	return map[string]struct{ template, want string }{
		"a silent loop":              {loops(1, ""), tooManySteps},
		"nested silent loops":        {loops(20, ""), tooManySteps},
		"a loop with a condition":    {"{{range 9000000000000000000}}{{if .}}{{end}}{{end}}", tooManySteps},
		"a loop in a dot":            {"{{with 9000000000}}{{range .}}{{end}}{{end}}", tooManySteps},
		"a loop over a variable":     {"{{$n := 9000000000}}{{range $i := $n}}{{$n = $i}}{{end}}", tooManySteps},
		"a loop that continues":      {"{{range 9000000000}}{{continue}}{{end}}", tooManySteps},
		"a loop in an else":          {"{{range 0}}{{else}}{{range 9000000000}}{{end}}{{end}}", tooManySteps},
		"loops over the values":      {strings.Repeat("{{range $.Values}}", 12) + strings.Repeat("{{end}}", 12), tooManySteps},
		"loops that end at once":     {"{{range 9000000}}{{range $.Values}}{{break}}{{end}}{{end}}", tooManySteps},
		"JSON of everything":         {"{{range 9000000}}{{if toJson $}}{{end}}{{end}}", tooManySteps},
		"a loop of output":           {loops(1, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), tooLarge},
		"a loop of values":           {loops(1, "{{$.Values}}{{$.Values}}{{$.Values}}{{$.Values}}"), tooLarge},
		"a text that doubles":        {`{{$s := "xxxxxxxxxx"}}{{range 60}}{{$s = print $s $s}}{{end}}`, tooManyBytes},
		"a format that doubles":      {`{{$s := "xxxxxxxxxx"}}{{range 60}}{{$s = printf "%s%s" $s $s}}{{end}}`, tooManyBytes},
		"quotes of quotes":           {`{{$s := "\"\\\""}}{{range 60}}{{$s = quote $s}}{{end}}`, tooManyBytes},
		"JSON of JSON":               {`{{$s := "\"\\\""}}{{range 60}}{{$s = toJson $s}}{{end}}`, tooManyBytes},
		"YAML of YAML":               {`{{$s := "\"\\\""}}{{range 60}}{{$s = toYaml $s}}{{end}}`, tooManyBytes},
		"YAML of everything":         {"{{range 9000000}}{{if toYaml $}}{{end}}{{end}}", tooManyBytes},
		"short parts of a text":      {`{{$s := "` + big + `"}}{{range 9000}}{{if trunc 1 $s}}{{end}}{{end}}`, tooManyBytes},
		"a replacement of each byte": {`{{$s := "` + big + `"}}{{replace "x" $s $s}}`, tooManyBytes},
		"a replacement of nothing":   {`{{$s := "` + big + `"}}{{replace "" $s $s}}`, tooManyBytes},
		"indented lines":             {`{{$s := "\n\n\n\n"}}{{range 60}}{{$s = indent 100 $s}}{{$s = replace " " "\n" $s}}{{end}}`, tooManyBytes},
		"a list of characters":       {`{{$s := "` + big + `"}}{{range 9}}{{$l := splitList "" $s}}{{end}}`, tooManyBytes},
		"a joined list":              {`{{$s := "` + big + `"}}{{join $s (splitList "" $s)}}`, tooManyBytes},
		"a search in a large text":   {`{{$s := "` + big + `"}}{{range 9000}}{{if contains $s $s}}{{end}}{{end}}`, tooManyBytes},
		"equality of large texts":    {`{{$s := "` + big + `"}}{{range 9000}}{{if eq $s $s}}{{end}}{{end}}`, tooManyBytes},
		"inequality of large texts":  {`{{$s := "` + big + `"}}{{range 9000}}{{if ne $s $s}}{{end}}{{end}}`, tooManyBytes},
		"a large key":                {`{{$s := "` + big + `"}}{{range 9000}}{{if index $.Values $s}}{{end}}{{end}}`, tooManyBytes},
		"order of large texts":       {`{{$s := "` + big + `"}}{{range 9000}}{{if lt $s $s}}{{end}}{{end}}`, tooManyBytes},
		"many parts in one loop":     {"{{range 9000}}" + strings.Repeat("{{if .}}{{end}}", 20_000) + "{{end}}", tooManySteps},
		"many parts":                 {strings.Repeat("{{1}}", 100_000), tooManySteps},
		"nested conditions":          {strings.Repeat("{{if 1}}", 40_000) + strings.Repeat("{{end}}", 40_000), tooManySteps},
		"nested parentheses":         {"{{" + strings.Repeat("(", 400_000) + "1" + strings.Repeat(")", 400_000) + "}}", "max expression depth exceeded"},
		"a template too large":       {strings.Repeat(big, 6), "the templates have more than 1048576 bytes: use smaller templates"},
		"a text that JSON enlarges":  {strings.Repeat("<", 170_000), tooLarge},
	}
}

func TestHostileTemplatesStayWithinLimits(t *testing.T) {
	for name, test := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := sandbox.Render(map[string]string{"app.yaml": test.template}, data())
			runtime.ReadMemStats(&after)

			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "app.yaml: ") {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > maxMemory {
				t.Errorf("allocated %d MiB", took>>20)
			}
		})
	}
}

func TestLimitsCoverAllTemplates(t *testing.T) {
	tests := map[string]struct{ template, want string }{
		"steps":   {"{{range 9000}}{{end}}", tooManySteps},
		"bytes":   {`{{$s := "` + strings.Repeat("x", 400_000) + `"}}{{$s = upper $s}}`, tooManyBytes},
		"output":  {strings.Repeat("x", 90_000), tooLarge},
		"sources": {strings.Repeat("x", 90_000), tooLarge},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			templates := map[string]string{"0": test.template}
			_, alone := sandbox.Render(templates, data())
			for i := range 30 {
				templates[fmt.Sprint(i)] = test.template
			}

			_, err := sandbox.Render(templates, data())

			if alone != nil {
				t.Errorf("one template: %v", alone)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "the templates have more than") {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

// FuzzRender checks arbitrary templates: a rendering ends within its limits, with texts that a
// ConfigMap can hold, or with an error that names the template and shows no value.
func FuzzRender(f *testing.F) {
	for _, test := range hostile() {
		if len(test.template) < 10_000 {
			f.Add(test.template, "a", "b")
		}
	}
	f.Add(`{{ range $k, $v := .Values }}{{ $k }}={{ $v | default "x" | quote }}{{ end }}`, "a.b", "1,2")
	f.Add(`{{ printf "%s%v%q%%" .Environment 1 true | replace "o" "00" | nindent 4 | splitList "," | toJson }}`, "a", "\xff")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		given := sandbox.Data{Fields: map[string]string{"Environment": "prod"}, Values: map[string]any{key: []any{value, map[string]any{value: nil}}, "password": "\x02" + secret}}
		rendered, err := sandbox.Render(map[string]string{"k": text}, given)
		runtime.ReadMemStats(&after)

		if took := after.TotalAlloc - before.TotalAlloc; took > maxMemory {
			t.Errorf("allocated %d MiB", took>>20)
		}
		if err != nil {
			if said := err.Error(); !strings.HasPrefix(said, "k: ") || len(said) > 500 || strings.Contains(said, "\x02") || !utf8.ValidString(said) {
				t.Errorf("error is %q", said)
			}
			return
		}
		encoded, err := json.Marshal(rendered)
		if err != nil || len(encoded) > sandbox.MaxBytes || !utf8.ValidString(rendered["k"]) {
			t.Errorf("rendered %d bytes as JSON, error %v", len(encoded), err)
		}
	})
}
