// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/example/demoapp-controller/pkg/helm/charts"
)

// TestSchema: the schema check accepts the same values as Helm.
func TestSchema(t *testing.T) {
	const ports = `{"type":"object","properties":{"port":{"$ref":"#/$defs/port"},"names":{"type":"array","items":{"type":"string"}}},` +
		`"required":["port"],"$defs":{"port":{"type":"integer","minimum":1}}}`
	const dependency = "dependencies: [{name: sub, version: 1.0.0, condition: sub.enabled, import-values: [exported]}]\n"
	tests := map[string]struct {
		schema, chart, sub string
		values             map[string]any
		// refusal is in the error of the check; empty if the values are accepted.
		refusal string
	}{
		"no schema":                  {},
		"the chart's own values":     {schema: ports},
		"other values":               {schema: ports, values: map[string]any{"port": 81}},
		"values of Go's types":       {schema: ports, values: map[string]any{"names": []any{"a"}, "port": int64(1)}},
		"a null removes the default": {schema: ports, values: map[string]any{"port": nil}, refusal: "missing property 'port'"},
		"too small":                  {schema: ports, values: map[string]any{"port": 0}, refusal: "values.port: minimum: got 0, want 1"},
		"no JSON":                    {schema: "{", refusal: "values.schema.json is not a valid JSON schema: unexpected EOF"},
		"no schema at all":           {schema: `{"type": 1}`, refusal: "values.schema.json is not a valid JSON schema: "},
		"a sub-chart":                {schema: ports, chart: dependency, sub: ports},
		"values of a sub-chart":      {chart: dependency, sub: ports, values: map[string]any{"sub": map[string]any{"port": 0}}, refusal: "values.sub.port: minimum"},
		"a sub-chart that is off":    {chart: dependency, sub: ports, values: map[string]any{"sub": map[string]any{"port": 0, "enabled": false}}},
		"imported values":            {schema: `{"properties":{"imported":{"type":"string"}}}`, chart: dependency, sub: `{}`, refusal: "values.imported: got number"},
		"no JSON in a sub-chart":     {chart: dependency, sub: "{", refusal: "sub-chart sub: values.schema.json is not a valid JSON schema"},
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
				files["charts/sub/values.yaml"] = "port: 80\nexports: {exported: {imported: 1}}\n"
				files["charts/sub/values.schema.json"] = test.sub
			}
			chart := testChart(t, files)

			err := chart.CheckValues(test.values)

			if (err != nil) != (test.refusal != "") || err != nil && !strings.Contains(err.Error(), test.refusal) {
				t.Errorf("error is %v, want %q", err, test.refusal)
			}
			parsed, parseErr := chart.Parse()
			if parseErr != nil {
				t.Fatal(parseErr)
			}
			if err := chartutil.ProcessDependencies(parsed, test.values); err != nil {
				t.Fatal(err)
			}
			if _, helmErr := util.ToRenderValues(parsed, test.values, common.ReleaseOptions{}, nil); (helmErr != nil) != (err != nil) {
				t.Errorf("Helm says %v, the check %v", helmErr, err)
			}
		})
	}
}

// TestSchemaIsReadAlone: whatever a schema refers to, no file and no address is read. Such a
// reference accepts every value, and the rest of the schema is still checked.
func TestSchemaIsReadAlone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was requested", r.Method, r.URL)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	property := func(schema string) string { return `{"properties":{"other":` + schema + `,"port":{"type":"integer"}}}` }
	tests := map[string]struct {
		schema string
		// unread is in the note; empty if the schema refers to nothing else.
		unread string
		// loose means that the rest of the schema is not checked either.
		loose bool
	}{
		"http":                         {schema: property(`{"$ref":"URL/s.json"}`), unread: "URL/s.json"},
		"a pointer in it":              {schema: property(`{"$ref":"URL/s.json#/definitions/a"}`), unread: "URL/s.json"},
		"an anchor in it":              {schema: property(`{"$ref":"URL/s.json#a"}`), unread: "URL/s.json"},
		"credentials":                  {schema: property(`{"$ref":"http://me:secret@example.com/s.json?token=secret"}`), unread: "http://example.com/s.json:"},
		"another scheme":               {schema: property(`{"$ref":"ftp://example.com/s.json"}`), unread: "ftp://example.com/s.json"},
		"a name":                       {schema: property(`{"$ref":"urn:example:s"}`), unread: "urn:example:s"},
		"a file":                       {schema: property(`{"$ref":"file://FILE"}`), unread: "file://FILE"},
		"a file beside the schema":     {schema: property(`{"$ref":"defs.json#/a"}`), unread: "file:///defs.json"},
		"below definitions":            {schema: `{"$ref":"#/definitions/a","definitions":{"a":` + property(`{"$ref":"URL/s.json"}`) + `}}`, unread: "URL/s.json"},
		"a reference to a reference":   {schema: `{"properties":{"other":{"$ref":"#/$defs/a"},"port":{"type":"integer"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"URL/s.json"}}}`, unread: "URL/s.json"},
		"beside another reference":     {schema: `{"$defs":{"a":{"properties":{"port":{"type":"integer"}}}},"allOf":[{"$ref":"#/$defs/a"},{"$ref":"URL/s.json"}]}`, unread: "URL/s.json"},
		"dynamic":                      {schema: property(`{"$dynamicRef":"URL/s.json#meta"}`), unread: "URL/s.json"},
		"recursive":                    {schema: `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"other":{"$ref":"URL/s.json"},"port":{"type":"integer"}}}`, unread: "URL/s.json"},
		"relative to an address":       {schema: `{"$id":"URL/a/root.json","properties":{"other":{"$ref":"b.json"},"port":{"type":"integer"}}}`, unread: "URL/a/b.json"},
		"relative to one below":        {schema: property(`{"$id":"URL/a/root.json","items":{"$ref":"../b.json"}}`), unread: "URL/b.json"},
		"relative to one of draft 4":   {schema: `{"$schema":"http://json-schema.org/draft-04/schema#","id":"URL/a/root.json","properties":{"other":{"$ref":"b.json"},"port":{"type":"integer"}}}`, unread: "URL/a/b.json"},
		"the schema's own address":     {schema: `{"$id":"URL/root.json","properties":{"port":{"$ref":"root.json#/$defs/a"}},"$defs":{"a":{"type":"integer"}}}`},
		"a schema in the document":     {schema: `{"$id":"URL/root.json","properties":{"port":{"$ref":"a.json"}},"$defs":{"a":{"$id":"a.json","type":"integer"}}}`},
		"a schema of the library":      {schema: property(`{"anyOf":[{"type":"integer"},{"$ref":"http://json-schema.org/draft-07/schema#"}]}`)},
		"an unknown one of its server": {schema: property(`{"$ref":"http://json-schema.org/draft-99/schema"}`), unread: "http://json-schema.org/draft-99/schema"},
		"a draft":                      {schema: `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"port":{"type":"integer"}}}`},
		"a dialect":                    {schema: `{"$schema":"URL/dialect.json","properties":{"port":{"type":"integer"}}}`, unread: "URL/dialect.json"},
		"ignored beside a reference":   {schema: `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"other":{"$ref":"URL/s.json","type":"string"},"port":{"type":"integer"}}}`, unread: "URL/s.json"},
		"data that looks like one":     {schema: property(`{"enum":[{"$ref":"URL/s.json"},1],"default":{"$ref":"URL/s.json"}}`)},
		"a property of that name":      {schema: property(`{"properties":{"$ref":{"type":"string"},"const":{"$ref":"URL/s.json"}}}`), unread: "URL/s.json"},
		"behind data":                  {schema: `{"properties":{"other":{"$ref":"#/default/a"},"port":{"type":"integer"}},"default":{"a":{"$ref":"URL/s.json"}}}`, unread: "URL/s.json", loose: true},
	}
	for name, test := range tests {
		for _, sub := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/sub-chart %t", name, sub), func(t *testing.T) {
				fill := strings.NewReplacer("URL", server.URL, "FILE", file)
				below := ""
				if sub {
					below = "charts/sub/"
				}
				files := map[string]string{"values.yaml": "{}\n", below + "values.schema.json": fill.Replace(test.schema)}
				if sub {
					files["charts/sub/Chart.yaml"] = "apiVersion: v2\nname: sub\nversion: 1.0.0\n"
				}
				chart := testChart(t, files)
				values := func(values map[string]any) map[string]any {
					if sub {
						return map[string]any{"sub": values}
					}
					return values
				}

				if err := chart.CheckValues(values(map[string]any{"port": 1, "other": 1})); err != nil {
					t.Errorf("values are refused: %v", err)
				}
				if err := chart.CheckValues(values(map[string]any{"port": "x"})); (err == nil) != test.loose {
					t.Errorf("error of a wrong port is %v", err)
				}
				note := chart.SchemaNote()
				if unread := fill.Replace(test.unread); (note == "") != (unread == "") || !strings.Contains(note, unread) || strings.Contains(note, "secret@") {
					t.Errorf("note is %q, want %q", note, unread)
				}
				parsed, err := chart.Parse()
				if err != nil {
					t.Fatal(err)
				}
				if err := CheckValues(parsed, values(map[string]any{"port": "x"})); (err == nil) != test.loose {
					t.Errorf("error of a recorded chart is %v", err)
				}
			})
		}
	}
}

// TestSchemaRefersToFilesOfChart: files in the folder of the chart are found as by Helm 3, which
// resolves references against its working directory, and other files are not read.
func TestSchemaRefersToFilesOfChart(t *testing.T) {
	const defs = `{"port":{"type":"integer"},"ports":{"items":{"$ref":"#/port"}},"more":{"$ref":"nested/more.json"}}`
	tests := map[string]struct {
		ref string
		// unread is in the note; empty if the file is found.
		unread string
	}{
		"relative to the working directory":  {ref: "file://./helm-charts/CHART/defs.json#/port"},
		"absolute":                           {ref: "file:///opt/helm/helm-charts/CHART/defs.json#/port"},
		"a folder of the same name":          {ref: "file:///CHART/helm-charts/CHART/defs.json#/port"},
		"beside the schema":                  {ref: "defs.json#/port"},
		"in a folder":                        {ref: "schemas/./port.json"},
		"of a file to another":               {ref: "defs.json#/more"},
		"within the other file":              {ref: "schemas/first.json"},
		"two files that refer to each other": {ref: "schemas/one.json"},
		"another chart":                      {ref: "file://./helm-charts/other/defs.json#/port", unread: "/helm-charts/other/defs.json"},
		"out of the chart":                   {ref: "file://./helm-charts/CHART/../../etc/defs.json", unread: "etc/defs.json"},
		"a file that is not there":           {ref: "file://./helm-charts/CHART/none.json", unread: "none.json"},
		"a template":                         {ref: "templates/a.json", unread: "templates/a.json"},
		"no JSON":                            {ref: "broken.json", unread: "broken.json"},
		"not a schema's file":                {ref: "README.md", unread: "README.md"},
	}
	for name, test := range tests {
		for _, sub := range []string{"", "charts/sub/"} {
			t.Run(name+" "+sub, func(t *testing.T) {
				folder := "test"
				if sub != "" {
					folder = "sub"
				}
				schema := `{"properties":{"port":{"$ref":"` + strings.ReplaceAll(test.ref, "CHART", folder) + `"}}}`
				files := map[string]string{"values.yaml": "{}\n"}
				for name, text := range map[string]string{
					"Chart.yaml": "apiVersion: v2\nname: " + folder + "\nversion: 1.0.0\n", "values.schema.json": schema,
					"defs.json": defs, "schemas/port.json": `{"type":"integer"}`, "nested/more.json": `{"type":"integer"}`,
					"schemas/first.json": `{"$ref":"port.json"}`, "schemas/one.json": `{"type":"integer","items":{"$ref":"two.json"}}`,
					"schemas/two.json": `{"$ref":"one.json"}`, "templates/a.json": "{}", "broken.json": "{", "README.md": "{}",
				} {
					files[sub+name] = text
				}
				chart := testChart(t, files)
				values := func(port any) map[string]any {
					if sub != "" {
						return map[string]any{"sub": map[string]any{"port": port}}
					}
					return map[string]any{"port": port}
				}

				if err := chart.CheckValues(values(1)); err != nil {
					t.Errorf("a port is refused: %v", err)
				}
				if err := chart.CheckValues(values("x")); (err == nil) != (test.unread != "") {
					t.Errorf("error of a wrong port is %v", err)
				}
				if note := chart.SchemaNote(); (note == "") != (test.unread == "") || !strings.Contains(note, test.unread) {
					t.Errorf("note is %q, want one about %q", note, test.unread)
				}
			})
		}
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
			values := map[string]any{"apiKey": "verysecret"}
			maps.Copy(values, test.values)
			err = demo.CheckValues(values)
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
	for value, want := range map[string]string{
		"abc":                    `values.code: 'abc' does not match pattern '^[0-9]+$'`,
		strings.Repeat("x", 2e6): `values.code: does not meet "pattern"`,
	} {
		err := chart.CheckValues(map[string]any{"code": value})
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
