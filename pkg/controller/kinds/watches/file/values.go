// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/sandbox"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
)

// maxValuesBytes limits the text of values.
const maxValuesBytes = 32 << 10

// ValuesTemplate computes the values of the chart from a resource.
type ValuesTemplate struct{ text string }

// ParseValuesTemplate parses a Go template over a resource that yields YAML, such as
//
//	replicaCount: {{ .spec.size }}
//	fullnameOverride: {{ .metadata.name }}-cache
//
// It has the functions of [sandbox.Functions].
func ParseValuesTemplate(text string) (*ValuesTemplate, error) {
	switch {
	case len(text) > maxValuesBytes:
		return nil, fmt.Errorf("has %d bytes, and may have %d", len(text), maxValuesBytes)
	case !strings.Contains(text, "{{"):
		return nil, fmt.Errorf("has no {{ }}; it is a Go template that yields YAML, and no longer a CEL expression: write for example %s", templateFor(text))
	}
	if err := sandbox.CheckDocument(text); err != nil {
		return nil, fmt.Errorf("is not a valid template: %w", err)
	}
	return &ValuesTemplate{text: text}, nil
}

// fieldOfSelf matches a field of the resource in a CEL expression.
var fieldOfSelf = regexp.MustCompile(`\bself((?:\.\w+)+)`)

// templateFor returns the template for a CEL expression of fields only, or else an example.
func templateFor(expression string) string {
	template := fieldOfSelf.ReplaceAllString(expression, "{{ $1 }}")
	if template == expression || len(template) > maxErrorBytes/2 || strings.ContainsAny(template, "()?+*/%<>=!|&") {
		return "replicaCount: {{ .spec.size }}"
	}
	return template
}

// String returns the text of the template; empty for nil.
func (t *ValuesTemplate) String() string {
	if t == nil {
		return ""
	}
	return t.text
}

// Execute returns the values of a resource. It fails if the template fails or takes too much work,
// or if its result is not an object, or too large. The error names the field values, the resource
// and the line. It shows no value of the resource.
func (t *ValuesTemplate) Execute(resource *unstructured.Unstructured) (map[string]any, error) {
	document, err := sandbox.RenderDocument(t.text, resource.Object)
	if err != nil {
		return nil, runtimeError("values", resource, err)
	}
	result, err := values.ParseAndInsert(document.YAML, document)
	if err != nil {
		return nil, runtimeError("values", resource, fmt.Errorf("the template gives YAML that cannot be used: %w", inDocument(document, err)))
	}
	return result, nil
}

// lineOfYAML matches the line in an error about YAML.
var lineOfYAML = regexp.MustCompile(`\bline (\d+)`)

// inDocument adds the line of the document that an error is about. The line has the actions of the
// template instead of the values of the resource.
func inDocument(document *sandbox.Document, err error) error {
	text := document.Show(err.Error())
	if found := lineOfYAML.FindStringSubmatch(text); found != nil {
		lines := strings.Split(document.YAML, "\n")
		if number, err := strconv.Atoi(found[1]); err == nil && number > 0 && number <= len(lines) {
			text += " in " + quoted(strings.TrimSpace(document.Show(lines[number-1])))
		}
	}
	return errors.New(text)
}
