// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The table of values is between these lines of README.md.
const (
	tableBegin = "<!-- The table is generated from values.yaml by hack/manifests. -->\n"
	tableEnd   = "<!-- End of the table. -->\n"
)

// value is a row of the table.
type value struct{ path, defaults, description string }

// writeReadme replaces the table of values in README.md.
func writeReadme(root string) error {
	content, err := os.ReadFile(filepath.Join(root, valuesFile))
	if err != nil {
		return err
	}
	values, err := describe(content)
	if err != nil {
		return fmt.Errorf("%s: %w", valuesFile, err)
	}
	readme, err := os.ReadFile(filepath.Join(root, readmeFile))
	if err != nil {
		return err
	}
	head, rest, begins := bytes.Cut(readme, []byte(tableBegin))
	_, tail, ends := bytes.Cut(rest, []byte(tableEnd))
	if !begins || !ends {
		return fmt.Errorf("%s: the lines %q and %q must surround the table of values", readmeFile, tableBegin, tableEnd)
	}
	page := string(head) + tableBegin + "\n" + table(values) + "\n" + tableEnd + string(tail)
	return writeFile(filepath.Join(root, readmeFile), []byte(page))
}

// describe returns the values of a file with their comments. A value without a comment is an error.
func describe(content []byte) ([]value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 {
		return nil, errors.New("no values")
	}
	return describeMapping(document.Content[0], "")
}

func describeMapping(mapping *yaml.Node, prefix string) ([]value, error) {
	var values []value
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		path, description := prefix+key.Value, comment(key.HeadComment)
		inner := node.Kind == yaml.MappingNode && len(node.Content) > 0
		// A mapping is one value if its comment describes it as a whole.
		inner = inner && (description == "" || node.Content[0].HeadComment != "")
		if description == "" && !inner {
			return nil, fmt.Errorf("%s: has no comment; describe the value in the lines above it", path)
		}
		if description != "" {
			defaults, err := defaultOf(node, inner)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			values = append(values, value{path, defaults, description})
		}
		if inner {
			nested, err := describeMapping(node, path+".")
			if err != nil {
				return nil, err
			}
			values = append(values, nested...)
		}
	}
	return values, nil
}

// comment returns the text of the last paragraph of a comment. Earlier paragraphs describe the
// file.
func comment(text string) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		words = append(words, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "#"))...)
	}
	return strings.Join(words, " ")
}

// defaultOf returns the default of a value as JSON, and "" for a mapping whose values have rows of
// their own.
func defaultOf(node *yaml.Node, inner bool) (string, error) {
	if inner {
		return "", nil
	}
	var decoded any
	if err := node.Decode(&decoded); err != nil {
		return "", err
	}
	text, err := json.Marshal(decoded)
	return "`" + string(text) + "`", err
}

// table returns the values as a Markdown table.
func table(values []value) string {
	var b strings.Builder
	b.WriteString("| value | default | description |\n|---|---|---|\n")
	for _, v := range values {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.path, v.defaults, strings.ReplaceAll(v.description, "|", `\|`))
	}
	return b.String()
}
