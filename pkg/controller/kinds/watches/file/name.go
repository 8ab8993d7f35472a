// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"fmt"
	"regexp"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/message"
)

const (
	// MaxReleaseName is the maximum length of the name of a release in Helm.
	MaxReleaseName = 53
	// maxTemplateBytes limits the text of a releaseName.
	maxTemplateBytes = 4096
	// maxNameOutput limits the output of a releaseName, so that an error can show how a name is too
	// long.
	maxNameOutput = 256
)

// releaseName is the form of the name of a release in Helm: pkg/chart/v2/util/validate_name.go.
var releaseName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// nameFunctions are the functions of sprig that a releaseName can use. Their results are not longer
// than a product of their arguments, and the same for the same arguments: a resource must keep the
// name of its release.
var nameFunctions = []string{"default", "lower", "upper", "trim", "trimAll", "trimPrefix", "trimSuffix", "trunc", "replace", "sha256sum", "toString"}

// NameTemplate computes the name of the release of a resource. A nil template gives the name of the
// resource.
type NameTemplate struct {
	text     string
	template *template.Template
}

// ParseNameTemplate parses a Go template over a resource, such as {{ .metadata.namespace }}-{{
// .metadata.name }}. It can use these functions of sprig: default, lower, upper, trim, trimAll,
// trimPrefix, trimSuffix, trunc, replace, sha256sum and toString.
func ParseNameTemplate(text string) (*NameTemplate, error) {
	if text == "" || len(text) > maxTemplateBytes {
		return nil, fmt.Errorf("must have 1 to %d bytes, got %d", maxTemplateBytes, len(text))
	}
	all, functions := sprig.TxtFuncMap(), template.FuncMap{}
	for _, name := range nameFunctions {
		functions[name] = all[name]
	}
	parsed, err := template.New("releaseName").Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is not a valid Go template: %w", err)
	}
	return &NameTemplate{text: text, template: parsed}, nil
}

// String returns the text of the template; empty for nil.
func (t *NameTemplate) String() string {
	if t == nil {
		return ""
	}
	return t.text
}

// Execute returns the name of the release of a resource. It fails if a field that the template
// needs is missing, or if the result is not a valid name for Helm. The error names the field
// releaseName and the resource.
func (t *NameTemplate) Execute(resource *unstructured.Unstructured) (string, error) {
	name := resource.GetName()
	if t != nil {
		output := &limitedBuffer{limit: maxNameOutput}
		if err := t.template.Execute(output, resource.Object); err != nil {
			if output.exceeded {
				err = fmt.Errorf("gives a name of more than %d characters", maxNameOutput)
			}
			return "", runtimeError("releaseName", resource, err)
		}
		name = output.String()
	}
	switch {
	case len(name) > MaxReleaseName:
		return "", runtimeError("releaseName", resource, fmt.Errorf("gives %q with %d characters, and a release may have %d; shorten it in watches.yaml",
			name, len(name), MaxReleaseName))
	case !releaseName.MatchString(name):
		return "", runtimeError("releaseName", resource,
			fmt.Errorf("gives %q; the name of a release must have lower-case letters, digits, dots and dashes, and begin and end with a letter or digit", name))
	}
	return name, nil
}

// runtimeError is an error of a field of the file for one resource.
func runtimeError(path string, resource *unstructured.Unstructured, err error) error {
	name := resource.GetName()
	if namespace := resource.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return &resourceError{
		text: fmt.Sprintf("%s of %s %s: %s", path, resource.GetKind(), name, message.Line(err.Error(), maxErrorBytes)), err: err,
	}
}

// resourceError has a text of one line and keeps its cause.
type resourceError struct {
	text string
	err  error
}

// Error implements error.
func (e *resourceError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *resourceError) Unwrap() error { return e.err }
