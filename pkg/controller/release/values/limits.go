// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"fmt"
	"iter"

	yamlv3 "go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/rawjson"
)

// The limits of the values of one object. Bytes and nodes count over all of its sources
// together.
const (
	// maxValueBytes is the maximum size of a ConfigMap or a Secret.
	maxValueBytes = 1 << 20
	// maxValueNodes limits the number of keys, scalars, lists and objects. The values of
	// one object then take less than 20 MiB of memory.
	maxValueNodes = 20_000
	// maxNodeMarks limits the characters that can begin a node, in one source. They are
	// counted before parsing, when texts cannot be distinguished from structure.
	maxNodeMarks = 2 * maxValueNodes
	// maxValueDepth limits the nesting of lists and objects.
	maxValueDepth = 100
	// maxValueKeyBytes limits the size of a key, because error messages quote whole keys.
	maxValueKeyBytes = 1024
)

// errNotAnObject is the error for a list, a number or a text.
var errNotAnObject = errors.New("it is not an object (key: value)")

// limitError is the error for values that exceed a limit. Its text never repeats values,
// so it may be shown for a Secret, too.
type limitError struct{ text string }

// Error implements error.
func (e *limitError) Error() string { return e.text }

func limitErrorf(format string, args ...any) error { return &limitError{fmt.Sprintf(format, args...)} }

// budget is the remainder of the limits of one object.
type budget struct{ bytes, nodes int }

func newBudget() *budget { return &budget{bytes: maxValueBytes, nodes: maxValueNodes} }

// parse reads YAML or JSON within the budget. A text with only comments has no values.
// Duplicate keys are an error. So are anchors and aliases, because a few of them expand
// to any size. Whole numbers stay integers, so that a template does not print 1000000 as
// 1e+06.
func (b *budget) parse(text string) (map[string]any, error) {
	parsed, _, err := b.parseAny(text)
	if parsed == nil || err != nil {
		return nil, err
	}
	values, ok := parsed.(map[string]any)
	if !ok {
		return nil, errNotAnObject
	}
	return values, nil
}

// parseAny is parse for any value. It also returns the nodes of the text.
func (b *budget) parseAny(text string) (parsed any, document *yamlv3.Node, err error) {
	if err := b.takeBytes(len(text)); err != nil {
		return nil, nil, err
	}
	if marks := nodeMarks(text); marks > maxNodeMarks {
		return nil, nil, limitErrorf("it has %d of the characters that structure YAML (, : ? [ { and the dash of a list), and may have %d; make the values smaller",
			marks, maxNodeMarks)
	}
	data := []byte(text)
	if document, err = b.check(data); err != nil {
		return nil, nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	if err := utiljson.Unmarshal(asJSON, &parsed); err != nil {
		return nil, nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	return parsed, document, nil
}

// CheckFields returns an error that names the first field which is not within the limits. The
// fields count together. Their values are JSON. They are not decoded, so that the check takes no
// memory.
func CheckFields(fields iter.Seq2[string, []byte]) error {
	b := newBudget()
	for name, value := range fields {
		if err := b.checkField(name, value); err != nil {
			return fmt.Errorf("%s: %w", name[:min(len(name), maxValueKeyBytes)], err)
		}
	}
	return nil
}

func (b *budget) checkField(name string, value []byte) error {
	if err := b.takeBytes(len(name) + len(value)); err != nil {
		return err
	}
	size := rawjson.Measure(value)
	size.Key = max(size.Key, len(name))
	size.Nodes++ // The name.
	return b.takeSize(size)
}

// takeSize takes all but the bytes of a document.
func (b *budget) takeSize(size rawjson.Size) error {
	switch {
	case size.Depth > maxValueDepth:
		return limitErrorf("it has %d lists and objects within each other, and may have %d; make the values flatter", size.Depth, maxValueDepth)
	case size.Key > maxValueKeyBytes:
		return errLongKey(size.Key)
	default:
		return b.takeNodes(size.Nodes)
	}
}

func errLongKey(bytes int) error {
	return limitErrorf("it has a key of %d bytes, and a key may have %d; make the key shorter", bytes, maxValueKeyBytes)
}

func (b *budget) takeBytes(bytes int) error {
	if bytes > b.bytes {
		return limitErrorf("it has %d bytes, and all values of one resource together may have %d, of which %d are left; make the values smaller",
			bytes, maxValueBytes, b.bytes)
	}
	b.bytes -= bytes
	return nil
}

func (b *budget) takeNodes(nodes int) error {
	if nodes > b.nodes {
		return limitErrorf("it has %d keys, scalars, lists and objects, and all values of one resource together may have %d, of which %d are left; make the values smaller",
			nodes, maxValueNodes, b.nodes)
	}
	b.nodes -= nodes
	return nil
}

// nodeMarks counts the characters that can begin a node. Each node has at most one such
// character of its own, and each character begins at most a key and its value.
func nodeMarks(text string) int {
	marks := 0
	for i := range len(text) {
		switch text[i] {
		case ',', ':', '?', '[', '{':
			marks++
		case '-':
			if i+1 == len(text) || text[i+1] <= ' ' || text[i+1] >= 0x80 {
				marks++ // A dash begins an item of a list if white space follows.
			}
		}
	}
	return marks
}

// check counts and checks the nodes of a document before aliases are expanded. The tree
// of yaml/v3 keeps an alias as one node.
func (b *budget) check(data []byte) (*yamlv3.Node, error) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	nodes := 0
	if err := checkNode(&document, 0, &nodes); err != nil {
		return nil, err
	}
	return &document, b.takeNodes(nodes)
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
