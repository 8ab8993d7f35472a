// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common/util"

	"github.com/example/demoapp-controller/pkg/helm/charts"
)

// TestSchema: the schema check accepts the same values as Helm. Complex schemas are left to Helm.
func TestSchema(t *testing.T) {
	const ports = `{"type":"object","properties":{"port":{"$ref":"#/$defs/port"},"names":{"type":"array","items":{"type":"string"}}},` +
		`"required":["port"],"$defs":{"port":{"type":"integer","minimum":1}}}`
	tests := map[string]struct {
		schema, chart string
		values        map[string]any
		// compiled and accepted are the expected results of the check, and valid is Helm's result
		// for the values.
		compiled, accepted, valid bool
	}{
		"no schema":                  {valid: true},
		"the chart's own values":     {schema: ports, compiled: true, accepted: true, valid: true},
		"other values":               {schema: ports, values: map[string]any{"port": 81}, compiled: true, accepted: true, valid: true},
		"values of Go's types":       {schema: ports, values: map[string]any{"names": []any{"a"}, "port": int64(1)}, compiled: true, accepted: true, valid: true},
		"a null removes the default": {schema: ports, values: map[string]any{"port": nil}, compiled: true},
		"too small":                  {schema: ports, values: map[string]any{"port": 0}, compiled: true},
		"no JSON":                    {schema: "{"},
		"no schema at all":           {schema: `{"type": 1}`},
		"a schema elsewhere":         {schema: `{"$ref":"file:///nowhere/values.schema.json"}`},
		"a sub-chart":                {schema: ports, chart: "dependencies: [{name: sub, version: 1.0.0}]\n", valid: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"Chart.yaml":  "apiVersion: v2\nname: schema\nversion: 1.0.0\n" + test.chart,
				"values.yaml": "port: 80\n",
			}
			if test.schema != "" {
				files["values.schema.json"] = test.schema
			}
			if test.chart != "" {
				files["charts/sub/Chart.yaml"] = "apiVersion: v2\nname: sub\nversion: 1.0.0\n"
			}
			chart := testChart(t, files)
			parsed, err := chart.Parse()
			if err != nil {
				t.Fatal(err)
			}
			if compiled := chart.schema != nil; compiled != test.compiled {
				t.Errorf("compiled: %t, want %t", compiled, test.compiled)
			}
			accepted, refusal := chart.schema.check(parsed, test.values)
			if accepted != test.accepted {
				t.Errorf("accepted: %t, want %t", accepted, test.accepted)
			}
			if refused := test.compiled && !test.accepted; (refusal != nil) != refused {
				t.Errorf("error is %v, want one: %t", refusal, refused)
			}
			all, err := util.CoalesceValues(parsed, test.values)
			if err != nil {
				t.Fatal(err)
			}
			if err := util.ValidateAgainstSchema(parsed, all); (err == nil) != test.valid {
				t.Errorf("Helm says %v, want it to be valid: %t", err, test.valid)
			}
		})
	}
}

// TestSchemaErrorsAreShort: any number of violations is one line that names the first.
func TestSchemaErrorsAreShort(t *testing.T) {
	long := strings.Repeat("k", 1000)
	selector := map[string]any{}
	for i := range 80_000 {
		selector[fmt.Sprintf("a%d", i)] = i
	}
	unknown := map[string]any{}
	for i := range 5 {
		unknown[fmt.Sprintf("unknown%d", i)] = i
	}
	tests := map[string]struct {
		values map[string]any
		want   string // A pattern.
	}{
		"80,000 violations": {
			map[string]any{"nodeSelector": selector},
			`^values do not meet the chart's schema: (values\.nodeSelector\.a\d+: got number, want string(; )?){3} \(and 79997 more\)$`,
		},
		"one":              {map[string]any{"nodeSelector": map[string]any{"a": 1}}, `: values\.nodeSelector\.a: got number, want string$`},
		"a place in lists": {map[string]any{"extraEnv": []any{map[string]any{"name": 1}}}, `: values\.extraEnv\[0\]\.name: got number, want string$`},
		"a key with dots":  {map[string]any{"podLabels": map[string]any{"app.kubernetes.io/name": "x"}}, `: values\.podLabels\["app\.kubernetes\.io/name"\]: is not allowed$`},
		"an unknown value": {map[string]any{"replicas": 1}, `: values: property "replicas" is not allowed$`},
		"unknown values":   {unknown, `: values: properties ("unknown\d"(, )?){3} and 2 more are not allowed$`},
		"long keys":        {map[string]any{long: 1, long + "x": 2}, `: values: 2 properties are not allowed$`},
		"a long path":      {map[string]any{"nodeSelector": map[string]any{long: 1}}, `: values\.nodeSelector\.\.\.: got number, want string$`},
		"a missing value":  {map[string]any{"service": nil}, `: values: missing property 'service'$`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			demo, err := LoadFS(charts.DemoApp(), ".")
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := demo.Parse()
			if err != nil {
				t.Fatal(err)
			}
			values := map[string]any{"apiKey": "verysecret"}
			maps.Copy(values, test.values)
			_, err = demo.CheckValues(parsed, values)
			if err == nil || !regexp.MustCompile(test.want).MatchString(err.Error()) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
			if err != nil && len(err.Error()) > 4096 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestLongValuesAreLeftOutOfErrors: a part of a secret could not be found in a message.
func TestLongValuesAreLeftOutOfErrors(t *testing.T) {
	chart := testChart(t, map[string]string{
		"values.yaml": "{}\n", "values.schema.json": `{"properties":{"code":{"type":"string","pattern":"^[0-9]+$"}}}`,
	})
	parsed, err := chart.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"abc":                    `values.code: 'abc' does not match pattern '^[0-9]+$'`,
		strings.Repeat("x", 2e6): `values.code: does not meet "pattern"`,
	} {
		_, err := chart.schema.check(parsed, map[string]any{"code": value})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error is %.200v, want %s", err, want)
		}
	}
}

func TestValueNames(t *testing.T) {
	chart := testChart(t, map[string]string{
		"values.yaml":                 "image: x\nlist: [{inList: 1}]\n",
		"values.schema.json":          `{"properties":{"port":{"anyOf":[{"properties":{"name":{}}}]}}}`,
		"charts/sub/Chart.yaml":       "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/values.yaml":      "ofSub: 1\n",
		"templates/configmap.yaml":    configMap("a", "b"),
		"charts/sub/templates/a.yaml": configMap("b", "b"),
	})
	want := map[string]bool{}
	for _, name := range []string{"test", "sub", "image", "list", "inList", "port", "name", "ofSub"} {
		want[name] = true
	}
	if diff := cmp.Diff(want, chart.ValueNames()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
