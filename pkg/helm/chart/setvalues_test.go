// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"helm.sh/helm/v4/pkg/strvals"
)

func TestSetValues(t *testing.T) {
	tests := map[string]struct {
		values      map[string]any
		assignments map[string]string
		want        map[string]any
		replaced    []string
	}{
		"nothing": {want: map[string]any{}},
		"types": {
			assignments: map[string]string{"a": "1", "b": "true", "c": "null", "d": "text", "e": "", "f": "007", "g": "1.5"},
			want: map[string]any{
				"a": int64(1), "b": true, "c": nil, "d": "text", "e": "", "f": "007", "g": "1.5",
			},
		},
		"a path into a map": {
			values:      map[string]any{"image": map[string]any{"tag": "1", "name": "web"}},
			assignments: map[string]string{"image.tag": "v2", "image.pull": "Always"},
			want:        map[string]any{"image": map[string]any{"tag": "v2", "name": "web", "pull": "Always"}},
			replaced:    []string{"image.tag"},
		},
		"a list": {
			values:      map[string]any{"hosts": []any{"a", "b"}},
			assignments: map[string]string{"hosts[1]": "c", "ports": "{1,2}", "env[0].name": "X"},
			want: map[string]any{
				"hosts": []any{"a", "c"}, "ports": []any{int64(1), int64(2)}, "env": []any{map[string]any{"name": "X"}},
			},
			replaced: []string{"hosts[1]"},
		},
		"further assignments after commas": {
			values:      map[string]any{"b": "old"},
			assignments: map[string]string{"a": "1,b=2,c[0]=3"},
			want:        map[string]any{"a": int64(1), "b": int64(2), "c": []any{int64(3)}},
			replaced:    []string{"a"},
		},
		"escapes": {
			assignments: map[string]string{`labels.app\.kubernetes\.io/name`: `a\,b`, "list": `\{a\}`},
			want:        map[string]any{"labels": map[string]any{"app.kubernetes.io/name": "a,b"}, "list": "{a}"},
		},
		"brackets and text in a value": {
			assignments: map[string]string{"pattern": "[x][99999999][", "list": "{[a,[b}"},
			want:        map[string]any{"pattern": "[x][99999999][", "list": []any{"[a", "[b"}},
		},
		"the same number": {
			values:      map[string]any{"a": 3.0},
			assignments: map[string]string{"a": "3"},
			want:        map[string]any{"a": int64(3)},
		},
		"null for a value": {
			values:      map[string]any{"a": map[string]any{"b": "c"}},
			assignments: map[string]string{"a": "null", "b": "null"},
			want:        map[string]any{"a": nil, "b": nil},
			replaced:    []string{"a"},
		},
		"a map by a scalar": {
			values:      map[string]any{"a": map[string]any{"b": "c"}},
			assignments: map[string]string{"a": "x"},
			want:        map[string]any{"a": "x"},
			replaced:    []string{"a"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, _ := copyValue(test.values).(map[string]any)

			set, replaced, err := SetValues(test.values, test.assignments)
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(test.want, set); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.replaced, replaced); diff != "" {
				t.Errorf("replaced paths (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.values, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the original changed (-before +after):\n%s", diff)
			}
			helm, _ := copyValue(test.values).(map[string]any)
			for _, path := range slices.Sorted(maps.Keys(test.assignments)) {
				if err := strvals.ParseInto(path+"="+test.assignments[path], helm); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(helm, set); diff != "" {
				t.Errorf("helm install --set differs (-helm +engine):\n%s", diff)
			}
		})
	}
}

// TestSetTexts has a row for each difference from TestSetValues.
func TestSetTexts(t *testing.T) {
	tests := map[string]struct {
		values      map[string]any
		assignments map[string]string
		want        map[string]any
		replaced    []string
	}{
		"nothing": {want: map[string]any{}},
		"types": {
			assignments: map[string]string{"a": "1", "b": "true", "c": "null", "d": "text", "e": "", "f": "false"},
			want:        map[string]any{"a": "1", "b": "true", "c": "null", "d": "text", "e": "", "f": "false"},
		},
		"a path into a map": {
			values:      map[string]any{"rbac": map[string]any{"create": true, "name": "web"}, "other": int64(1)},
			assignments: map[string]string{"rbac.create": "false"},
			want:        map[string]any{"rbac": map[string]any{"create": "false", "name": "web"}, "other": int64(1)},
			replaced:    []string{"rbac.create"},
		},
		"a list is replaced": {
			values:      map[string]any{"hosts": []any{"a", "b"}},
			assignments: map[string]string{"hosts[0]": "c", "ports": "{1,2}"},
			want:        map[string]any{"hosts": []any{"c"}, "ports": []any{"1", "2"}},
			replaced:    []string{"hosts[0]"},
		},
		"a text in place of a map": {
			values:      map[string]any{"a": map[string]any{"b": "c"}},
			assignments: map[string]string{"a": "null"},
			want:        map[string]any{"a": "null"},
			replaced:    []string{"a"},
		},
		"the same text": {values: map[string]any{"a": "3"}, assignments: map[string]string{"a": "3"}, want: map[string]any{"a": "3"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, _ := copyValue(test.values).(map[string]any)

			set, replaced, err := SetTexts(test.values, test.assignments)
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(test.want, set); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.replaced, replaced); diff != "" {
				t.Errorf("replaced paths (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.values, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the original changed (-before +after):\n%s", diff)
			}
		})
	}
	if _, _, err := SetTexts(nil, map[string]string{"password": "abc,topsecret"}); err == nil || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("the error is %v", err)
	}
}

func TestSetValuesErrors(t *testing.T) {
	const secret = "topsecret"
	tests := map[string]struct {
		path, value string
		want        string
	}{
		"no path":                      {path: "", value: secret, want: "the path is empty"},
		"a comma that is not escaped":  {path: "password", value: "abc," + secret, want: `set "password": the value is malformed`},
		"a list without an end":        {path: "password", value: "{" + secret, want: `set "password": the value is malformed`},
		"a path through a string":      {path: "text.key", value: secret, want: `set "text.key": the path leads through a value`},
		"an index into a string":       {path: "text[0]", value: secret, want: `set "text[0]": the path leads through a value`},
		"an index that is no number":   {path: "list[a]", value: secret, want: "not a number from 0 to 65536"},
		"a negative index":             {path: "list[-1]", value: secret, want: "not a number from 0 to 65536"},
		"an index above Helm's":        {path: "list[65537]", value: secret, want: "not a number from 0 to 65536"},
		"an index without an end":      {path: "list[0", value: secret, want: "not a number from 0 to 65536"},
		"too many indexes in a path":   {path: "list" + strings.Repeat("[0]", 31), value: secret, want: "more than 30 list indexes"},
		"too many items":               {path: "list" + strings.Repeat("[65535]", 17), value: secret, want: "list indexes exceed 1048576 in all"},
		"too many items after a comma": {path: "a", value: secret + ",b" + strings.Repeat("[65535]", 17) + "=1", want: "list indexes exceed 1048576 in all"},
		"too many levels":              {path: strings.Repeat("a.", 31) + "b", value: secret, want: "nested level"},
		"too much text":                {path: "a", value: strings.Repeat(secret, 1<<17), want: "assignments exceed 1048576 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"text": "x"}

			_, _, err := SetValues(values, map[string]string{test.path: test.value})

			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("error %q has the value, or several lines", err)
			}
			if diff := cmp.Diff(map[string]any{"text": "x"}, values); diff != "" {
				t.Errorf("the original changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestAssignmentsShareOneLimit holds that many assignments cannot make a list each.
func TestAssignmentsShareOneLimit(t *testing.T) {
	assignments := map[string]string{}
	for _, name := range strings.Split("abcdefghijklmnopq", "") {
		assignments[name+"[65535]"] = "x"
	}

	_, _, err := SetValues(nil, assignments)

	if err == nil || !strings.Contains(err.Error(), "list indexes exceed") {
		t.Errorf("error is %v", err)
	}
}

func FuzzSetValues(f *testing.F) {
	for _, seed := range []string{"a.b=c", "a[0].b={1,2},c=d", `a\.b=\,`, "a[0", "=", "a={", "a=1,b[2][3]=4", "x[70000]=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, assignment string) {
		path, value, _ := strings.Cut(assignment, "=")
		set, _, err := SetValues(map[string]any{"text": "x", "list": []any{"a"}}, map[string]string{path: value})
		if err != nil {
			return
		}
		helm := map[string]any{"text": "x", "list": []any{"a"}}
		if err := strvals.ParseInto(path+"="+value, helm); err != nil {
			t.Fatalf("helm install --set refuses what SetValues accepts: %v", err)
		}
		if diff := cmp.Diff(helm, set); diff != "" {
			t.Errorf("helm install --set differs (-helm +engine):\n%s", diff)
		}
	})
}
