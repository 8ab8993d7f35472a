// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "sigs.k8s.io/yaml"
)

// errNotEditable means that owner references cannot be inserted into a text.
var errNotEditable = errors.New("the text cannot be edited")

// editOwners returns the text of a document, in YAML or JSON, with the owner references of
// the owned object. It inserts them into the text. If the text has owner references already,
// it changes and writes the text's tree, which keeps comments, quotes and the order of keys.
// It returns false when neither results in the owned object.
func editOwners(text []byte, object, owned *unstructured.Unstructured) ([]byte, bool) {
	for _, edit := range []func([]byte, *yaml.Node, ownerChange) ([]byte, error){insertOwners, replaceOwners} {
		var document yaml.Node
		if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) != 1 {
			return nil, false
		}
		edited, err := edit(text, &document, ownerChange{object.Object, owned.Object})
		if err != nil {
			continue
		}
		parsed, err := parseDocument(edited)
		if err == nil && len(parsed) == 1 && Equal(parsed[0], owned) {
			return edited, true
		}
	}
	return nil, false
}

// Equal reports whether two objects are semantically equal.
func Equal(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}

// ownerChange is an object before and after the owner was added.
type ownerChange struct {
	before, after map[string]any
}

// references returns the owner references, and whether they have changed.
func (c ownerChange) references() (any, bool) {
	had, _, _ := unstructured.NestedFieldNoCopy(c.before, "metadata", "ownerReferences")
	has, found, _ := unstructured.NestedFieldNoCopy(c.after, "metadata", "ownerReferences")
	return has, found && !equality.Semantic.DeepEqual(had, has)
}

// visit calls changed for each object whose owners have changed, with its node. The objects
// of a List are its items.
func (c ownerChange) visit(node *yaml.Node, changed func(node *yaml.Node, owners any) error) error {
	list, ok := items(c.after)
	if !ok {
		owners, ok := c.references()
		if !ok {
			return nil
		}
		return changed(node, owners)
	}
	_, nodes := entry(node, "items")
	former, _ := items(c.before)
	if nodes == nil || len(nodes.Content) != len(list) {
		return errNotEditable
	}
	for i, item := range list {
		before, ok1 := former[i].(map[string]any)
		after, ok2 := item.(map[string]any)
		if !ok1 || !ok2 {
			return errNotEditable
		}
		if err := (ownerChange{before, after}).visit(nodes.Content[i], changed); err != nil {
			return err
		}
	}
	return nil
}

// items returns the items of a List, and whether the object is a List.
func items(object map[string]any) ([]any, bool) {
	list, ok := object["items"].([]any)
	return list, ok
}

// entry returns a key of a mapping and its value; nil when the node has no such key.
func entry(node *yaml.Node, name string) (key, value *yaml.Node) {
	if node.Kind != yaml.MappingNode {
		return nil, nil
	}
	// Of equal keys the last one counts, as for the parser of objects.
	for i := len(node.Content) - 2; i >= 0; i -= 2 {
		if key := node.Content[i]; key.Kind == yaml.ScalarNode && key.Value == name {
			return key, node.Content[i+1]
		}
	}
	return nil, nil
}

// insertOwners inserts owner references at the start of each object's metadata, and keeps
// the rest of the text to the byte.
func insertOwners(text []byte, document *yaml.Node, change ownerChange) ([]byte, error) {
	var edited bytes.Buffer
	lines, copied := startsOfLines(text), 0
	insert := func(at int, inserted []byte) error {
		if at < copied || at > len(text) {
			return errNotEditable
		}
		edited.Write(text[copied:at])
		edited.Write(inserted)
		copied = at
		return nil
	}
	err := change.visit(document.Content[0], func(node *yaml.Node, owners any) error {
		key, metadata := entry(node, "metadata")
		if metadata == nil || metadata.Kind != yaml.MappingNode {
			return errNotEditable
		}
		if _, present := entry(metadata, "ownerReferences"); present != nil {
			return errNotEditable
		}
		if metadata.Style&yaml.FlowStyle != 0 {
			at := position(text, lines, metadata.Line, metadata.Column)
			if at >= len(text) || text[at] != '{' {
				return errNotEditable
			}
			inserted, err := flowOwners(owners, len(metadata.Content) > 0)
			return errors.Join(err, insert(at+1, inserted))
		}
		if len(metadata.Content) == 0 || metadata.Content[0].Line <= key.Line {
			return errNotEditable
		}
		inserted, err := blockOwners(owners, metadata.Content[0].Column-1)
		return errors.Join(err, insert(position(text, lines, key.Line+1, 1), inserted))
	})
	if err != nil {
		return nil, err
	}
	edited.Write(text[copied:])
	return edited.Bytes(), nil
}

// startsOfLines returns the offset of each line in the text, and then the text's length.
func startsOfLines(text []byte) []int {
	starts := []int{0}
	for line := range bytes.Lines(text) {
		starts = append(starts, starts[len(starts)-1]+len(line))
	}
	return starts
}

// position returns the offset of a line and column, both counted from 1, columns in
// characters. It returns the text's length for a position that is not in the text.
func position(text []byte, lines []int, line, column int) int {
	if line < 1 || line >= len(lines) {
		return len(text)
	}
	for i := range string(text[lines[line-1]:lines[line]]) {
		if column--; column == 0 {
			return lines[line-1] + i
		}
	}
	return len(text)
}

// flowOwners returns owner references as text in a flow mapping or in JSON.
func flowOwners(owners any, followed bool) ([]byte, error) {
	data, err := json.Marshal(owners)
	if err != nil {
		return nil, err
	}
	separator := ""
	if followed {
		separator = ", "
	}
	return fmt.Appendf(nil, `"ownerReferences": %s%s`, data, separator), nil
}

// blockOwners returns owner references as text in a block mapping.
func blockOwners(owners any, indent int) ([]byte, error) {
	data, err := kyaml.Marshal(map[string]any{"ownerReferences": owners})
	if err != nil {
		return nil, err
	}
	var indented bytes.Buffer
	for line := range bytes.Lines(data) {
		indented.Write(bytes.Repeat([]byte(" "), indent))
		indented.Write(line)
	}
	return indented.Bytes(), nil
}

// replaceOwners sets the owner references in the text's tree and encodes the tree.
func replaceOwners(_ []byte, document *yaml.Node, change ownerChange) ([]byte, error) {
	err := change.visit(document.Content[0], func(node *yaml.Node, owners any) error {
		_, metadata := entry(node, "metadata")
		if metadata == nil || metadata.Kind != yaml.MappingNode {
			return errNotEditable
		}
		value := &yaml.Node{}
		if err := value.Encode(owners); err != nil {
			return err
		}
		if _, present := entry(metadata, "ownerReferences"); present != nil {
			*present = *value
			return nil
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: "ownerReferences"}
		if metadata.Style&yaml.FlowStyle != 0 {
			key.Style = yaml.DoubleQuotedStyle // It may be JSON.
		}
		metadata.Content = slices.Insert(metadata.Content, 0, key, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var edited bytes.Buffer
	encoder := yaml.NewEncoder(&edited)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(document), encoder.Close()); err != nil {
		return nil, err
	}
	return edited.Bytes(), nil
}
