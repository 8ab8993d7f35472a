// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"helm.sh/helm/v4/pkg/chart/common/util"
)

// TestSchema: what is accepted here is what Helm accepts; all that is not plain is
// left to Helm.
func TestSchema(t *testing.T) {
	const ports = `{"type":"object","properties":{"port":{"$ref":"#/$defs/port"},"names":{"type":"array","items":{"type":"string"}}},` +
		`"required":["port"],"$defs":{"port":{"type":"integer","minimum":1}}}`
	tests := map[string]struct {
		schema, chart string
		values        map[string]any
		// compiled and accepted are what is to become of it here, and valid what Helm
		// says of the values.
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
			parsed, err := chart.parse()
			if err != nil {
				t.Fatal(err)
			}
			if compiled := chart.schema != nil; compiled != test.compiled {
				t.Errorf("compiled: %t, want %t", compiled, test.compiled)
			}
			if accepted := chart.schema.accepts(parsed, test.values); accepted != test.accepted {
				t.Errorf("accepted: %t, want %t", accepted, test.accepted)
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
