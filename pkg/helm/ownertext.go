// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// errNotEditable means that owner references cannot be written into a text as it is.
var errNotEditable = errors.New("the text cannot be edited")

// editOwners returns the text of a document with the owner references of its owned
// objects in place of those of its objects. Comments, the order of keys, quotes, and
// how keys and values are written stay as they are. It reports false when the text is
// written in a way that leaves doubt.
func editOwners(text []byte, objects, owned []*unstructured.Unstructured) ([]byte, bool) {
	if utilyaml.IsJSONBuffer(text) {
		if edited, err := editJSON(text, objects, owned); err == nil && holds(edited, owned) {
			return edited, true
		}
	}
	edited, err := editYAML(text, objects, owned)
	return edited, err == nil && holds(edited, owned)
}

// holds reports whether the text is that of the objects.
func holds(text []byte, objects []*unstructured.Unstructured) bool {
	parsed, err := parseDocument(text)
	return err == nil && slices.EqualFunc(parsed, objects, equalContent)
}

// references returns the owner references of an object, and whether they differ from
// those that it had before.
func references(before, after map[string]any) (any, bool) {
	had, _, _ := unstructured.NestedFieldNoCopy(before, "metadata", "ownerReferences")
	has, found, _ := unstructured.NestedFieldNoCopy(after, "metadata", "ownerReferences")
	return has, found && !equality.Semantic.DeepEqual(had, has)
}

// items returns what is in a List, and whether the object is one.
func items(object map[string]any) ([]any, bool) {
	list, ok := object["items"].([]any)
	return list, ok
}

// editYAML edits the tree of nodes that the text is parsed to.
func editYAML(text []byte, objects, owned []*unstructured.Unstructured) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(owned) != 1 || len(document.Content) != 1 {
		return nil, errNotEditable
	}
	if err := editNode(document.Content[0], objects[0].Object, owned[0].Object); err != nil {
		return nil, err
	}
	var edited bytes.Buffer
	encoder := yaml.NewEncoder(&edited)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return nil, err
	}
	return edited.Bytes(), nil
}

func editNode(node *yaml.Node, before, after map[string]any) error {
	if list, ok := items(after); ok {
		nodes := entry(node, "items")
		former, _ := items(before)
		if nodes == nil || len(nodes.Content) != len(list) {
			return errNotEditable
		}
		for i, item := range list {
			was, ok1 := former[i].(map[string]any)
			is, ok2 := item.(map[string]any)
			if !ok1 || !ok2 {
				return errNotEditable
			}
			if err := editNode(nodes.Content[i], was, is); err != nil {
				return err
			}
		}
		return nil
	}
	owners, changed := references(before, after)
	if !changed {
		return nil
	}
	value := &yaml.Node{}
	if err := value.Encode(owners); err != nil {
		return err
	}
	metadata := entry(node, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		return errNotEditable
	}
	if present := entry(metadata, "ownerReferences"); present != nil {
		*present = *value
		return nil
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: "ownerReferences"}
	if metadata.Style&yaml.FlowStyle != 0 {
		// The text may be JSON to others.
		key.Style = yaml.DoubleQuotedStyle
	}
	metadata.Content = slices.Insert(metadata.Content, 0, key, value)
	return nil
}

// entry returns the value of a key; nil when the node has no such key.
func entry(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	// As for the parser of objects, the last one holds.
	for i := len(node.Content) - 2; i >= 0; i -= 2 {
		if node.Content[i].Kind == yaml.ScalarNode && node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// jsonEditor writes owner references into a stream of JSON.
type jsonEditor struct {
	text    []byte
	decoder *json.Decoder
	edited  bytes.Buffer
	// copied is how much of the text is in edited already.
	copied int64
}

// editJSON edits the text of a stream of objects.
func editJSON(text []byte, objects, owned []*unstructured.Unstructured) ([]byte, error) {
	e := &jsonEditor{text: text, decoder: json.NewDecoder(bytes.NewReader(text))}
	// The empty ones among the values of a stream are no objects.
	values, next := json.NewDecoder(bytes.NewReader(text)), 0
	for {
		var value json.RawMessage
		err := values.Decode(&value)
		if errors.Is(err, io.EOF) {
			e.edited.Write(text[e.copied:])
			return e.edited.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		object, err := parseObject(value)
		switch {
		case err != nil:
		case object == nil:
			_, err = e.skip()
		case next < len(owned):
			err = e.object(objects[next].Object, owned[next].Object)
			next++
		}
		if err != nil {
			return nil, err
		}
	}
}

// object edits the object that begins here.
func (e *jsonEditor) object(before, after map[string]any) error {
	list, isList := items(after)
	owners, changed := references(before, after)
	if err := e.expect('{'); err != nil {
		return err
	}
	return e.entries(func(key string) error {
		switch {
		case isList && key == "items":
			former, _ := items(before)
			return e.list(former, list)
		case !isList && changed && key == "metadata":
			return e.metadata(owners)
		default:
			_, err := e.skip()
			return err
		}
	})
}

// list edits the objects of a List.
func (e *jsonEditor) list(before, after []any) error {
	if err := e.expect('['); err != nil {
		return err
	}
	for i := range after {
		was, ok1 := before[i].(map[string]any)
		is, ok2 := after[i].(map[string]any)
		if !ok1 || !ok2 {
			return errNotEditable
		}
		if err := e.object(was, is); err != nil {
			return err
		}
	}
	return e.expect(']')
}

// metadata writes the owner references into the metadata that begins here.
func (e *jsonEditor) metadata(owners any) error {
	if err := e.expect('{'); err != nil {
		return err
	}
	data, err := json.Marshal(owners)
	if err != nil {
		return err
	}
	begin, separator := e.decoder.InputOffset(), ""
	if e.decoder.More() {
		separator = ", "
	}
	found := false
	err = e.entries(func(key string) error {
		value, err := e.skip()
		if err == nil && key == "ownerReferences" {
			found = true
			end := e.decoder.InputOffset()
			e.replace(end-int64(len(value)), end, data)
		}
		return err
	})
	if err == nil && !found {
		e.replace(begin, begin, fmt.Appendf(nil, `"ownerReferences": %s%s`, data, separator))
	}
	return err
}

// replace writes data in the place of a part of the text.
func (e *jsonEditor) replace(from, to int64, data []byte) {
	e.edited.Write(e.text[e.copied:from])
	e.edited.Write(data)
	e.copied = to
}

// entries calls back for each of the entries up to the end of an object.
func (e *jsonEditor) entries(each func(key string) error) error {
	for e.decoder.More() {
		token, err := e.decoder.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return errNotEditable
		}
		if err := each(key); err != nil {
			return err
		}
	}
	return e.expect('}')
}

// expect consumes a delimiter.
func (e *jsonEditor) expect(delimiter json.Delim) error {
	token, err := e.decoder.Token()
	if err == nil && token != delimiter {
		return errNotEditable
	}
	return err
}

// skip consumes a value, and returns its text.
func (e *jsonEditor) skip() (json.RawMessage, error) {
	var value json.RawMessage
	err := e.decoder.Decode(&value)
	return value, err
}
