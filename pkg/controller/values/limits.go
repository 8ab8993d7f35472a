// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"bytes"
	"errors"
	"fmt"

	yamlv3 "go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// The limits of the values that one object brings. Bytes and nodes count over all of its
// sources together.
const (
	// maxValueBytes is what a ConfigMap or a Secret can hold.
	maxValueBytes = 1 << 20
	// maxValueNodes bounds the keys, scalars, lists and objects. The values of one
	// object then take less than 20 MiB of memory.
	maxValueNodes = 20_000
	// maxNodeMarks bounds the characters that can begin a node, in one source. It
	// holds before the source is parsed, when texts cannot be told from structure.
	maxNodeMarks = 2 * maxValueNodes
	// maxValueDepth bounds how deep lists and objects lie in each other.
	maxValueDepth = 100
	// maxValueKeyBytes bounds a key, which error messages name as a whole.
	maxValueKeyBytes = 1024
)

// errNotAnObject is the error of values that are a list, a number or a text.
var errNotAnObject = errors.New("it is not an object (key: value)")

// limitError is the error of values that are refused for their size or shape. Its text
// repeats nothing of the values, so it may be shown for a Secret, too.
type limitError struct{ text string }

// Error implements error.
func (e *limitError) Error() string { return e.text }

func limitErrorf(format string, args ...any) error { return &limitError{fmt.Sprintf(format, args...)} }

// budget is what is left of the limits of one object.
type budget struct{ bytes, nodes int }

func newBudget() *budget { return &budget{bytes: maxValueBytes, nodes: maxValueNodes} }

// parse reads YAML or JSON within the budget. Nothing but comments is no values; a key
// that is there twice is an error, and so is an anchor or an alias: a few of them expand
// to any size. Whole numbers stay whole, so that a template does not print 1000000 as
// 1e+06.
func (b *budget) parse(text string) (map[string]any, error) {
	if len(text) > b.bytes {
		return nil, limitErrorf("it has %d bytes, and all values of a DemoApp together may have %d, of which %d are left; make the values smaller",
			len(text), maxValueBytes, b.bytes)
	}
	b.bytes -= len(text)
	if marks := nodeMarks(text); marks > maxNodeMarks {
		return nil, limitErrorf("it has %d of the characters that structure YAML (, : ? [ { and the dash of a list), and may have %d; make the values smaller",
			marks, maxNodeMarks)
	}
	data := []byte(text)
	if err := b.check(data); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	if bytes.Equal(bytes.TrimSpace(asJSON), []byte("null")) {
		return nil, nil
	}
	var parsed any
	if err := utiljson.Unmarshal(asJSON, &parsed); err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	values, ok := parsed.(map[string]any)
	if !ok {
		return nil, errNotAnObject
	}
	return values, nil
}

// nodeMarks counts the characters that can begin a node. A node has no more than one of
// them to itself, and a mark begins at most a key and its value.
func nodeMarks(text string) int {
	marks := 0
	for i := range len(text) {
		switch text[i] {
		case ',', ':', '?', '[', '{':
			marks++
		case '-':
			if i+1 == len(text) || text[i+1] <= ' ' || text[i+1] >= 0x80 {
				marks++ // A dash begins an item of a list where a blank follows.
			}
		}
	}
	return marks
}

// check looks at the nodes of a document before anything expands it. The tree of
// yaml/v3 keeps an alias as one node.
func (b *budget) check(data []byte) error {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("it cannot be parsed: %w", err)
	}
	nodes := 0
	if err := checkNode(&document, 0, &nodes); err != nil {
		return err
	}
	if nodes > b.nodes {
		return limitErrorf("it has %d keys, scalars, lists and objects, and all values of a DemoApp together may have %d, of which %d are left; make the values smaller",
			nodes, maxValueNodes, b.nodes)
	}
	b.nodes -= nodes
	return nil
}

func checkNode(node *yamlv3.Node, depth int, nodes *int) error {
	if node.Kind == yamlv3.AliasNode || node.Anchor != "" {
		return limitErrorf("line %d has an anchor (&) or an alias (*), which are not supported; write the value in full, or quote it if it is a text", node.Line)
	}
	if depth > maxValueDepth {
		return limitErrorf("line %d lies more than %d lists and objects deep; make the values flatter", node.Line, maxValueDepth)
	}
	if node.Kind != yamlv3.DocumentNode {
		*nodes++
	}
	for i, child := range node.Content {
		if node.Kind == yamlv3.MappingNode && i%2 == 0 && len(child.Value) > maxValueKeyBytes {
			return limitErrorf("line %d has a key of %d bytes, and a key may have %d; make the key shorter", child.Line, len(child.Value), maxValueKeyBytes)
		}
		if err := checkNode(child, depth+1, nodes); err != nil {
			return err
		}
	}
	return nil
}
