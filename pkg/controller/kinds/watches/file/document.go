// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/example/demoapp-controller/pkg/message"
)

const (
	// MaxBytes is the maximum size of a file.
	MaxBytes = 1 << 20
	// MaxEntries is the maximum number of entries.
	MaxEntries = 1000
	// maxNodes limits the keys, scalars, lists and objects of a file, with those that aliases
	// repeat.
	maxNodes = 100_000
	// maxNodeMarks limits the characters that can begin a node. They are counted before parsing,
	// when the texts of scalars cannot be distinguished from structure.
	maxNodeMarks = maxNodes
	// maxDepth limits the nesting of lists and objects.
	maxDepth = 32
)

// yamlLine is the form of an error of the YAML parser.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// document parses data as one YAML document. It returns the root of the document, without aliases
// and merge keys.
func document(data []byte) (root *yaml.Node, line int, err error) {
	if len(data) > MaxBytes {
		return nil, 0, fmt.Errorf("has more than %d bytes; make it smaller", MaxBytes)
	}
	if marks := nodeMarks(data); marks > maxNodeMarks {
		return nil, 0, fmt.Errorf("has %d of the characters that structure YAML (, : ? [ { and the dash of a list), and may have %d; make it smaller",
			marks, maxNodeMarks)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var next yaml.Node
		err := decoder.Decode(&next)
		switch {
		case errors.Is(err, io.EOF):
			if root == nil {
				return nil, 0, errors.New("is empty; write [] if nothing is to be watched")
			}
			return root, 0, nil
		case err != nil:
			line, err := syntaxError(err)
			return nil, line, err
		case isEmpty(&next):
		case root != nil:
			return nil, next.Content[0].Line, errors.New("has several YAML documents; put all entries into one list")
		default:
			if root, line, err = withoutAliases(next.Content[0]); err != nil {
				return nil, line, err
			}
		}
	}
}

// isEmpty reports whether a document has nothing but comments.
func isEmpty(document *yaml.Node) bool {
	return len(document.Content) == 0 || isNull(document.Content[0]) && document.Content[0].Value == ""
}

// syntaxError takes the line out of an error of the YAML parser.
func syntaxError(err error) (line int, syntax error) {
	text := err.Error()
	prefix := yamlLine.FindStringSubmatch(text)
	if prefix == nil {
		return 0, fmt.Errorf("is not valid YAML: %w", err)
	}
	line, _ = strconv.Atoi(prefix[1]) // Without a line, prefix[1] is empty and the line is 0.
	if line > 0 && strings.HasPrefix(text[len(prefix[0]):], "did not find expected") {
		line++ // The parser counts the lines of these errors from 0, see fail in its decode.go.
	}
	return line, fmt.Errorf("is not valid YAML: %s", message.Line(text[len(prefix[0]):], maxErrorBytes))
}

// nodeMarks counts the characters that can begin a node.
func nodeMarks(data []byte) int {
	marks := 0
	for i, character := range data {
		switch character {
		case ',', ':', '?', '[', '{':
			marks++
		case '-':
			if i+1 == len(data) || data[i+1] <= ' ' || data[i+1] >= 0x80 {
				marks++ // A dash begins an item of a list if white space follows.
			}
		}
	}
	return marks
}

// expansion replaces aliases and merge keys by their content.
type expansion struct{ nodes int }

// errTooLarge and errTooDeep are the limits of expansion.
var (
	errTooLarge = fmt.Errorf("has more than %d keys, scalars, lists and objects, aliases expanded; make it smaller", maxNodes)
	errTooDeep  = fmt.Errorf("has lists and objects more than %d deep; make it flatter", maxDepth)
)

// withoutAliases returns a copy of a tree in which aliases and merge keys (<<) are expanded. The
// parser of YAML keeps an alias as one node, so that the limits apply before the tree grows. An
// alias of a node that contains it exceeds them.
func withoutAliases(root *yaml.Node) (*yaml.Node, int, error) {
	e := &expansion{}
	return e.expand(root, 0)
}

func (e *expansion) expand(node *yaml.Node, depth int) (expanded *yaml.Node, line int, err error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if e.nodes++; e.nodes > maxNodes {
		return nil, node.Line, errTooLarge
	}
	if depth > maxDepth {
		return nil, node.Line, errTooDeep
	}
	content := make([]*yaml.Node, 0, len(node.Content))
	var merged []*yaml.Node
	for i, child := range node.Content {
		child, line, err := e.expand(child, depth+1)
		if err != nil {
			return nil, line, err
		}
		if node.Kind == yaml.MappingNode && i%2 == 1 && node.Content[i-1].ShortTag() == "!!merge" {
			content = content[:len(content)-1] // The key of the merge.
			merged = append(merged, mergedMappings(child)...)
			continue
		}
		content = append(content, child)
	}
	for _, mapping := range merged {
		content = mergeInto(content, mapping)
	}
	copied := *node
	copied.Content = content
	return &copied, 0, nil
}

// mergedMappings returns the mappings of a merge key: one, or a list of them. Other nodes have no
// keys.
func mergedMappings(value *yaml.Node) []*yaml.Node {
	if value.Kind == yaml.SequenceNode {
		return value.Content
	}
	return []*yaml.Node{value}
}

// mergeInto appends the keys of a mapping that content does not have. Earlier keys win, as in
// https://yaml.org/type/merge.html.
func mergeInto(content []*yaml.Node, mapping *yaml.Node) []*yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return content
	}
	present := map[string]bool{}
	for i := 0; i < len(content); i += 2 {
		present[content[i].Value] = true
	}
	for i := 0; i < len(mapping.Content); i += 2 {
		if key := mapping.Content[i]; !present[key.Value] {
			content = append(content, key, mapping.Content[i+1])
		}
	}
	return content
}
