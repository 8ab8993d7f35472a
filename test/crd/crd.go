// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd tests the CustomResourceDefinitions of any group as the API server reads
// them: which objects are admitted, which fields are defaulted, which columns kubectl shows, and
// whether every field is documented and bounded.
package crd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/inspect/crd"
	"github.com/example/demoapp-controller/test/repository"
)

// Definition is a CustomResourceDefinition with a single version.
type Definition struct {
	*crd.Definition

	// columns are as they were written.
	columns []apiextensionsv1.CustomResourceColumnDefinition
}

// Files returns the CRDs of the repository, relative to its root. There are always some.
func Files(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"artifacts/crds/*.yaml", "artifacts/kinds/*/crd.yaml"} {
		found, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no CustomResourceDefinition matches %s (%v)", pattern, err)
		}
		for _, file := range found {
			files = append(files, strings.TrimPrefix(file, root(t)+string(filepath.Separator)))
		}
	}
	return files
}

// root returns the root of the repository.
func root(t testing.TB) string {
	t.Helper()
	dir, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Load reads a CustomResourceDefinition as the API server does. The path is relative to
// the root of the repository.
func Load(t testing.TB, file string) *Definition {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	var versioned apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &versioned); err != nil {
		t.Fatal(err)
	}
	found, err := crd.Read(&versioned)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has %d served versions (%v)", file, len(found), err)
	}
	return &Definition{Definition: found[0], columns: versioned.Spec.Versions[0].AdditionalPrinterColumns}
}

// Object returns an object of the kind whose spec is written in YAML; "null" for none.
func (d *Definition) Object(t testing.TB, name, spec string) map[string]any {
	t.Helper()
	object := map[string]any{
		"apiVersion": d.Internal.Spec.Group + "/" + d.Internal.Spec.Versions[0].Name,
		"kind":       d.Internal.Spec.Names.Kind,
		"metadata":   map[string]any{"name": name, "namespace": "default"},
	}
	var decoded map[string]any
	if err := yaml.Unmarshal([]byte(spec), &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded != nil {
		object["spec"] = integers(decoded)
	}
	return object
}

// integers turns whole numbers into int64, as the API server decodes them.
func integers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			v[key] = integers(element)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// Admit defaults an object in place and returns why it is refused.
func (d *Definition) Admit(t testing.TB, object map[string]any) field.ErrorList {
	t.Helper()
	d.Default(object)
	return d.Validate(t.Context(), object)
}

// Row returns what kubectl get shows of an object, by column.
func (d *Definition) Row(t testing.TB, object map[string]any) map[string]any {
	t.Helper()
	convertor, err := tableconvertor.New(d.columns)
	if err != nil {
		t.Fatal(err)
	}
	table, err := convertor.ConvertToTable(t.Context(), &unstructured.Unstructured{Object: object}, &metav1.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	row := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		row[column.Name] = table.Rows[0].Cells[i]
	}
	return row
}

// Unbounded returns the fields of spec and status without a description, and those that
// can grow without a limit. Each is a line that names the field.
func (d *Definition) Unbounded() []string {
	var found []string
	for _, name := range []string{"spec", "status"} {
		property, ok := d.Schema.Properties[name]
		if !ok {
			found = append(found, "no property "+name)
		}
		checkProperty(field.NewPath(name), &property, func(path *field.Path, problem string) {
			found = append(found, path.String()+" "+problem)
		})
	}
	return found
}

// Wordless returns the fields of spec with a pattern, and those with a rule that has no message, or
// whose message begins with the name of the field. Each is a line that names the field.
func (d *Definition) Wordless() []string {
	var found []string
	var check func(path *field.Path, name string, property apiextensions.JSONSchemaProps)
	check = func(path *field.Path, name string, property apiextensions.JSONSchemaProps) {
		if property.Pattern != "" {
			found = append(found, path.String()+" has a pattern")
		}
		for _, rule := range property.XValidations {
			if rule.Message == "" && rule.MessageExpression == "" {
				found = append(found, path.String()+" has a rule without a message")
			}
			of := name
			if rule.FieldPath != "" {
				of = rule.FieldPath[strings.LastIndex(rule.FieldPath, ".")+1:]
			}
			// A rule about two fields names both.
			if strings.HasPrefix(rule.Message, of+" ") && !strings.HasPrefix(rule.Message, of+" or ") {
				found = append(found, path.String()+" has a message that repeats the field: "+rule.Message)
			}
		}
		for child, schema := range property.Properties {
			check(path.Child(child), child, schema)
		}
		if property.Items != nil {
			check(path.Key("*"), name, *property.Items.Schema)
		}
		if property.AdditionalProperties != nil {
			check(path.Key("*"), name, *property.AdditionalProperties.Schema)
		}
	}
	check(field.NewPath("spec"), "spec", d.Schema.Properties["spec"])
	return found
}

func checkProperty(path *field.Path, property *apiextensions.JSONSchemaProps, report func(*field.Path, string)) {
	if property.Description == "" {
		report(path, "has no description")
	}
	checkElement(path, property, report)
}

// checkElement checks the limits of a value, which need not have a description where it is an
// element of a list or map of scalars.
func checkElement(path *field.Path, property *apiextensions.JSONSchemaProps, report func(*field.Path, string)) {
	switch property.Type {
	case "string":
		if property.MaxLength == nil && len(property.Enum) == 0 && property.Format != "date-time" {
			report(path, "has neither maxLength nor enum")
		}
	case "integer", "number":
		if property.Minimum == nil || (property.Maximum == nil && property.Format == "") {
			report(path, "has no minimum, or neither maximum nor format")
		}
	case "array":
		if property.MaxItems == nil {
			report(path, "has no maxItems")
		}
		checkElement(path.Key("*"), property.Items.Schema, report)
	case "object":
		if property.AdditionalProperties != nil {
			if property.MaxProperties == nil {
				report(path, "has no maxProperties")
			}
			checkElement(path.Key("*"), property.AdditionalProperties.Schema, report)
		}
		for name, child := range property.Properties {
			checkProperty(path.Child(name), &child, report)
		}
	}
}
