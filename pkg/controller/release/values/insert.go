// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	yamlv3 "go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/example/demoapp-controller/pkg/rawjson"
)

// Inserter replaces scalars of a parsed document. The result for a scalar without anything to
// replace is the scalar.
type Inserter interface {
	// Value replaces a scalar by a value as JSON has them.
	Value(scalar string) (any, error)
	// Text replaces a scalar that must remain a text: in quotes, as a block or as a key.
	Text(scalar string) (string, error)
}

// ParseAndInsert parses YAML within the limits of one object, and then replaces its texts. Inserted
// values count against the limits, too. It cannot change the structure of the document. An empty
// document has no values.
func ParseAndInsert(document string, inserter Inserter) (map[string]any, error) {
	i := &insertion{budget: newBudget(), Inserter: inserter, texts: map[string]bool{}}
	parsed, root, err := i.parseAny(document)
	if err != nil {
		return nil, err
	}
	i.findTexts(root)
	inserted, err := i.value(parsed, 0)
	if err != nil {
		return nil, err
	}
	if inserted == nil {
		return map[string]any{}, nil
	}
	values, isObject := inserted.(map[string]any)
	if !isObject {
		return nil, errNotAnObject
	}
	return values, nil
}

// insertion is one call of ParseAndInsert.
type insertion struct {
	*budget
	Inserter

	// texts are the scalars that must remain texts.
	texts map[string]bool
}

// findTexts finds the scalars that a document has in quotes or as a block.
func (i *insertion) findTexts(node *yamlv3.Node) {
	const notPlain = yamlv3.SingleQuotedStyle | yamlv3.DoubleQuotedStyle | yamlv3.LiteralStyle | yamlv3.FoldedStyle
	if node.Kind == yamlv3.ScalarNode && node.Style&notPlain != 0 {
		i.texts[node.Value] = true
	}
	for _, child := range node.Content {
		i.findTexts(child)
	}
}

// value returns a parsed value that lies in depth lists and objects, with the inserted values.
func (i *insertion) value(parsed any, depth int) (any, error) {
	switch parsed := parsed.(type) {
	case string:
		return i.scalar(parsed, depth)
	case []any:
		list := make([]any, len(parsed))
		for at, item := range parsed {
			var err error
			if list[at], err = i.value(item, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		return i.object(parsed, depth)
	default:
		return parsed, nil
	}
}

// object goes by the order of the keys, so that the first error is the same each time.
func (i *insertion) object(parsed map[string]any, depth int) (map[string]any, error) {
	object := make(map[string]any, len(parsed))
	for _, key := range slices.Sorted(maps.Keys(parsed)) {
		name, err := i.text(key)
		if err != nil {
			return nil, err
		}
		if len(name) > maxValueKeyBytes {
			return nil, errLongKey(len(name))
		}
		if _, isSet := object[name]; isSet {
			return nil, fmt.Errorf("it has the key %s twice", key) // The key of the template, since the inserted one is a value.
		}
		if object[name], err = i.value(parsed[key], depth+1); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// text returns the text for a scalar. The scalar itself has been counted.
func (i *insertion) text(scalar string) (string, error) {
	text, err := i.Text(scalar)
	if err != nil || text == scalar {
		return scalar, err
	}
	return text, i.takeBytes(len(text))
}

// scalar returns a copy of the value for a scalar.
func (i *insertion) scalar(scalar string, depth int) (any, error) {
	if i.texts[scalar] {
		return i.text(scalar)
	}
	value, err := i.Value(scalar)
	if err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case string:
		if value != scalar {
			err = i.takeBytes(len(value))
		}
		return value, err
	case map[string]any, []any:
		return i.copyOf(value, depth)
	default:
		return value, nil
	}
}

// copyOf returns a copy of an object or a list.
func (i *insertion) copyOf(value any, depth int) (copied any, err error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	if err := i.takeBytes(encoded.Len()); err != nil {
		return nil, err
	}
	size := rawjson.Measure(encoded.Bytes())
	size.Depth += depth
	size.Nodes-- // The scalar that the value replaces.
	if err := i.takeSize(size); err != nil {
		return nil, err
	}
	err = utiljson.Unmarshal(encoded.Bytes(), &copied)
	return copied, err
}
