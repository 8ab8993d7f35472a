// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/helm/charts"
)

// TestDemoAppFiles pins the whole list: a file that go:embed drops is as wrong as an accidental
// file.
func TestDemoAppFiles(t *testing.T) {
	want := []string{
		"Chart.yaml",
		"templates/NOTES.txt",
		"templates/_helpers.tpl",
		"templates/configmap.yaml",
		"templates/deployment.yaml",
		"templates/httproute.yaml",
		"templates/ingress.yaml",
		"templates/secret.yaml",
		"templates/service.yaml",
		"values.schema.json",
		"values.yaml",
	}
	var got []string
	err := fs.WalkDir(charts.DemoApp(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			got = append(got, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("embedded files (-want +got):\n%s", diff)
	}
}

// TestDemoAppDefaultsAreDescribed compares values.yaml with values.schema.json: each default has a
// property of the schema, and only the value that must not be deployed by accident has no default.
func TestDemoAppDefaultsAreDescribed(t *testing.T) {
	var schema struct {
		AdditionalProperties *bool                      `json:"additionalProperties"`
		Properties           map[string]json.RawMessage `json:"properties"`
		Required             []string                   `json:"required"`
	}
	if err := json.Unmarshal(read(t, "values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
		t.Error("the schema lets unknown values through")
	}
	var defaults map[string]any
	if err := yaml.Unmarshal(read(t, "values.yaml"), &defaults); err != nil {
		t.Fatal(err)
	}
	for name := range defaults {
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("value %q has a default and no entry in the schema", name)
		}
	}
	for name := range schema.Properties {
		if !slices.Contains(schema.Required, name) {
			t.Errorf("value %q is not required", name)
		}
		if _, ok := defaults[name]; ok == (name == "apiKey") {
			t.Errorf("value %q: default present is %t", name, ok)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := fs.ReadFile(charts.DemoApp(), path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
