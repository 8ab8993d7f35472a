// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
)

// TestOverrides has a row for each form of a value. Scalars are converted as sigs.k8s.io/yaml
// converts them for upstream.
func TestOverrides(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"text", "quay.io/a", "quay.io/a"},
		{"text in quotes", `"1.10"`, "1.10"},
		{"number", "3", "3"},
		{"number with an exponent", "1e6", "1e+06"},
		{"octal number", "010", "8"},
		{"boolean", "true", "true"},
		{"a word of YAML 1.1", "yes", "true"},
		{"the word in quotes", `"yes"`, "yes"},
		{"the word with a tag", "!!str yes", "yes"},
		{"date", "2001-01-01", "2001-01-01"},
		{"null", "null", ""},
		{"no value", "", ""},
		{"commas", "'{a,b},c=d'", "{a,b},c=d"},
		{"two lines", `"a\nb"`, "a\nb"},
		{"variable", "$IMAGE:$TAG", "quay.io/team/memcached:1.6"},
		{"variable in braces", "${IMAGE}-x", "quay.io/team/memcached-x"},
		{"empty variable", "a${EMPTY}b", "ab"},
		{"question for a variable with a default", `'{{ coalesce (env "UNKNOWN") "x" }}'`, "x"},
		{"empty env of the template", `'a{{ env "EMPTY" }}b'`, "ab"},
		{"question for a variable", `'{{ if env "UNKNOWN" }}a{{ else }}{{ env "TAG" }}{{ end }}'`, "1.6"},
		{"template", `"{{ \"a\" | upper | quote }}"`, `"A"`},
		{"variable in a template", `'{{ "$TAG" | replace "." "-" }}'`, "1-6"},
		{"template in a variable", `'{{ "{{" }}$TAG'`, "{{1.6"},
		{"env of the template", `'{{ env "TAG" }}'`, "1.6"},
		{"unknown env of the template", `'{{ env "UNKNOWN" | default "x" }}'`, "x"},
		{"expandenv of the template", `'{{ expandenv "a-%TAG" | replace "%" "$" | expandenv }}'`, "a-1.6"},
		{"numbers of a template", `'{{ range until 3 }}{{ . }}{{ end }}{{ seq 1 3 }}{{ repeat 2 "x" }}'`, "0121 2 3xx"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entry := parseOne(t, strings.Join([]string{
				"- version: v1", "  kind: A", "  chart: b", "  overrideValues:", "    image.tag: " + test.value,
			}, "\n"))

			if diff := cmp.Diff(map[string]string{"image.tag": test.want}, entry.Overrides.Values()); diff != "" {
				t.Errorf("overrides (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnsetVariables: a variable that is not set makes its entry wait, and no other. No error shows a
// value.
func TestUnsetVariables(t *testing.T) {
	const unknown = "the environment variable UNKNOWN is not set; set it, also to an empty text, or write '{{ env \"UNKNOWN\" | default \"\" }}'"
	tests := []struct{ name, value, want string }{
		{"in a text", `"${UNKNOWN}/pause:3.9"`, unknown},
		{"without braces", "$UNKNOWN/pause:3.9", unknown},
		{"in a template", `'{{ "$UNKNOWN" | upper }}'`, unknown},
		{"in place of an argument", `'{{ $UNKNOWN | upper }}'`, unknown},
		{"env of a template", `'{{ env "UNKNOWN" }}/pause:3.9'`, unknown},
		{"env in a branch", `'{{ if eq "a" "a" }}{{ env "UNKNOWN" | upper }}{{ end }}'`, unknown},
		{"env below a function", `'{{ printf "%s" (env "UNKNOWN") }}'`, unknown},
		{"expandenv of a template", `'{{ "%UNKNOWN" | replace "%" "$" | expandenv }}'`, unknown},
		{"function that fails without it", `'{{ env "UNKNOWN" | fail }}'`, unknown},
		{"part of a password", "s3cr3t$y3kb", `has a "$" without a variable of the environment that is set; write '{{ "\x24" }}' for a dollar`},
		{"two dollars", "a$$b", `has a "$" without a variable of the environment that is set; write '{{ "\x24" }}' for a dollar`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entries, err := file.Parse(fileName, []byte("- {version: v1, kind: A, chart: a}\n- {version: v1, kind: B, chart: b, overrideValues: {ok: 1, image.tag: "+
				test.value+"}}\n"), environment)
			if err != nil || len(entries) != 2 {
				t.Fatalf("%d entries, error %v", len(entries), err)
			}
			if err := entries[0].Waits(); err != nil {
				t.Errorf("the other entry waits: %v", err)
			}
			want := "watches.yaml:2: entry 2 (v1 B): overrideValues[image.tag]: " + test.want
			if got := fmt.Sprint(entries[1].Waits()); got != want {
				t.Errorf("the entry waits because of\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestOverrideErrors: no error shows the value, or its expansion by the environment.
func TestOverrideErrors(t *testing.T) {
	const (
		invalid = "is not a valid Go template; check its brackets and the names of its functions, which are the text functions of sprig"
		failing = "is a Go template that fails; check the arguments of its functions"
		tooLong = "has more than 65536 bytes after its expansion; make it shorter"
	)
	tests := []struct{ name, overrides, want string }{
		{"unclosed template", `{a: "{{ $SECRET"}`, "overrideValues[a]: " + invalid},
		{"unknown function", `{a: "{{ $SECRET }}"}`, "overrideValues[a]: " + invalid},
		{"network", `{a: '{{ getHostByName "s3cr3t" }}'}`, "overrideValues[a]: " + invalid},
		{"failing function", `{a: '{{ fail "$SECRET" }}'}`, "overrideValues[a]: " + failing},
		{"panic of a function", `{a: '{{ repeat -1 "$SECRET" }}'}`, "overrideValues[a]: " + failing},
		{"large number", `{a: '{{ repeat 1000000000 "$SECRET" }}'}`, "overrideValues[a]: " + failing},
		{"large number of many", `{a: '{{ seq 1 1000000000 }}s3cr3t'}`, "overrideValues[a]: " + failing},
		{"long output", `{a: '{{ range until 60000 }}$SECRET{{ end }}'}`, "overrideValues[a]: " + tooLong},
		{"long text", "{a: '$SECRET " + strings.Repeat("x", 1<<16) + "'}", "overrideValues[a]: " + tooLong},
		{"object", "{a: {b: s3cr3t}}", "overrideValues[a]: must be a text, got an object; write one key for each value, as in helm install --set"},
		{"list", "{a: [s3cr3t]}", "overrideValues[a]: must be a text, got a list; write one key for each value, as in helm install --set"},
		{"no path", "{'': s3cr3t}", "overrideValues[]: is not a path of a value; write for example image.tag"},
		{"assignment as path", "{a=b: s3cr3t}", "overrideValues[a=b]: is not a path of a value; write for example image.tag"},
		{"path twice", "{a: s3cr3t, a: s3cr3t}", "overrideValues[a]: is already set in line 1; remove one of them"},
		{"list of overrides", "[a=s3cr3t]", "overrideValues: must be an object (key: value), got a list"},
		{"overrides as text", "a=$SECRET", "overrideValues: must be an object (key: value)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := file.Parse(fileName, []byte(memcached+", overrideValues: "+test.overrides+"}"), environment)

			text := fmt.Sprint(err)
			if want := "watches.yaml:1: entry 1 (cache.my.domain/v1 Memcached): " + test.want; !strings.HasPrefix(text, want) {
				t.Errorf("got %s\nwant %s", text, want)
			}
			if strings.Contains(text, "s3cr3t") || strings.Contains(text, "\n") {
				t.Errorf("the error shows a value, or has two lines: %s", text)
			}
		})
	}
}

func TestTooManyOverrides(t *testing.T) {
	var text strings.Builder
	text.WriteString("- version: v1\n  kind: A\n  chart: b\n  overrideValues:\n")
	for i := range 1001 {
		fmt.Fprintf(&text, "    key%d: a\n", i)
	}

	_, err := file.Parse(fileName, []byte(text.String()), environment)

	if want := "watches.yaml:5: entry 1 (v1 A): overrideValues: has 1001 values, and may have 1000"; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestOverridesSorted: the order of the keys does not depend on the file. Upstream's order is
// random.
func TestOverridesSorted(t *testing.T) {
	entry := parseField(t, "overrideValues: {b: 1, c.d: 2, a: 3}")

	if diff := cmp.Diff([]string{"a", "b", "c.d"}, entry.Overrides.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c.d"}, entry.Overrides.Keys()); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}
}

// TestNewOverrides: overrides of a program are neither expanded nor executed.
func TestNewOverrides(t *testing.T) {
	overrides := file.NewOverrides(map[string]string{"b": "$TAG", "a": "{{ x"})

	if diff := cmp.Diff(map[string]string{"a": "{{ x", "b": "$TAG"}, overrides.Values()); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}
}

// TestOverridesNotLogged: an entry that is logged shows the keys of its overrides only.
func TestOverridesNotLogged(t *testing.T) {
	entry := parseField(t, "overrideValues: {password: $SECRET, user: s3cr3t}")

	asJSON, err := json.Marshal(entry.Overrides)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(entry), fmt.Sprintf("%+v", entry), fmt.Sprintf("%#v", entry), fmt.Sprintf("%+v", &entry), string(asJSON), entry.Overrides.String(),
	} {
		if strings.Contains(text, "s3cr3t") || strings.Contains(text, "$SECRET") || !strings.Contains(text, "password, user") {
			t.Errorf("got %s, want the keys only", text)
		}
	}
}
