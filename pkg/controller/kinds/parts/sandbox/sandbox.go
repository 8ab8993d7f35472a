// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"
)

// MaxBytes is the limit of the output of one rendering: the size of all keys and texts as a JSON
// object. A ConfigMap with such data fits the limits of the API server, and so does its request.
const MaxBytes = 1_000_000

// maxTemplateBytes is the limit of all templates of one rendering, which bounds the parsed
// templates.
const maxTemplateBytes = 1 << 20

// name is the name of a template inside this package. Errors of text/template begin with it.
const name = "t"

// Data is the input of templates.
type Data struct {
	// Fields are texts by name: {{ .Name }}.
	Fields map[string]string
	// Values are JSON values by name: {{ .Values.name }}. Whole numbers are int64.
	Values map[string]any
}

// Render renders each template. It returns the texts by the keys of the templates. The templates
// are rendered in the order of their keys, and the first error is returned: an [*Error].
func Render(templates map[string]string, data Data) (map[string]string, error) {
	dot := map[string]any{"Values": data.Values}
	for field, text := range data.Fields {
		dot[field] = text
	}
	m, size, out := &meter{rangeSteps: largestMap(data.Values)}, 0, &output{}
	rendered := make(map[string]string, len(templates))
	for _, key := range slices.Sorted(maps.Keys(templates)) {
		if size += len(templates[key]); size > maxTemplateBytes {
			return nil, &Error{Key: key, Problem: fmt.Sprintf("the templates have more than %d bytes: use smaller templates", maxTemplateBytes)}
		}
		text, err := render(templates[key], dot, m, out)
		if err != nil {
			return nil, newError(key, err)
		}
		rendered[key] = text
	}
	return rendered, checkSize(rendered)
}

func render(text string, dot map[string]any, m *meter, out *output) (string, error) {
	tree, steps, err := m.parse(text)
	if err != nil {
		return "", err
	}
	if _, err := m.step(steps); err != nil {
		return "", err
	}
	functions := m.functions()
	functions[stepFunction], functions[insertFunction] = m.step, m.insert
	parsed, err := template.New(name).Funcs(functions).Option(m.missingKey()).AddParseTree(name, tree)
	if err != nil {
		return "", err
	}
	begin := out.Len()
	if err := parsed.Execute(out, dot); err != nil {
		return "", err
	}
	made := out.String()[begin:]
	if !utf8.ValidString(made) {
		return "", errNotUTF8
	}
	return made, nil
}

// parse parses a template and adds the functions that the meter needs. It returns the steps of one
// evaluation, without the steps inside loops.
func (m *meter) parse(text string) (tree *parse.Tree, steps int, err error) {
	if m.isDocument && strings.ContainsAny(text, openMark+closeMark) {
		return nil, 0, errMark
	}
	trees, err := parse.Parse(name, text, "", "", m.functions(), builtins)
	if err != nil {
		return nil, 0, err
	}
	if tree = trees[name]; tree == nil || len(trees) > 1 {
		return nil, 0, errDefine
	}
	steps, err = m.install(tree.Root)
	return tree, steps, err
}

// missingKey is the option for a key that a map does not have. A document itself refuses missing
// values (errNothing), so that default, if and with can handle them.
func (m *meter) missingKey() string {
	if m.isDocument {
		return "missingkey=default"
	}
	return "missingkey=error"
}

// largestMap returns the number of keys of the largest map in a value.
func largestMap(value any) int {
	largest := 0
	switch v := value.(type) {
	case map[string]any:
		largest = len(v)
		for _, item := range v {
			largest = max(largest, largestMap(item))
		}
	case []any:
		for _, item := range v {
			largest = max(largest, largestMap(item))
		}
	}
	return largest
}

// checkSize checks the size as JSON, which is the form of the request. The error names the longest
// text.
func checkSize(rendered map[string]string) error {
	encoded, err := json.Marshal(rendered)
	if err != nil {
		return err
	}
	if len(encoded) <= MaxBytes {
		return nil
	}
	longest := slices.MaxFunc(slices.Sorted(maps.Keys(rendered)), func(a, b string) int { return len(rendered[a]) - len(rendered[b]) })
	return newError(longest, errTooLarge)
}

// output collects the texts of all templates of a rendering.
type output struct{ strings.Builder }

// Write implements io.Writer.
func (o *output) Write(data []byte) (int, error) {
	if o.Len()+len(data) > MaxBytes {
		return 0, errTooLarge
	}
	return o.Builder.Write(data)
}
