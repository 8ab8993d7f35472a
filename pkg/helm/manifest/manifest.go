// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"
)

// Document is one document of a manifest with its objects: none, one, or several in JSON.
type Document struct {
	Text    []byte
	Objects []*unstructured.Unstructured
}

// sourcePrefix starts the line in which Helm names the template of a document.
var sourcePrefix = []byte("# Source: ")

// Source returns the template that a document is from; empty when it is not known.
func Source(d Document) string {
	line, _, _ := bytes.Cut(d.Text, []byte("\n"))
	source, ok := bytes.CutPrefix(line, sourcePrefix)
	if !ok {
		return ""
	}
	return string(source)
}

// Parse splits a manifest into its documents and parses them. It checks the limits
// before it parses.
func Parse(manifest string) ([]Document, error) {
	documents, err := splitManifest(manifest)
	if err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	if err := checkSize(documents); err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	count := 0
	for i := range documents {
		document := &documents[i]
		if document.Objects, err = parseDocument(document.Text); err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		if count += countObjects(document.Objects); count > maxObjects {
			return nil, fmt.Errorf("parse manifest: %w", errTooManyObjects)
		}
	}
	return documents, nil
}

// splitManifest returns the documents of a manifest without parsing them.
func splitManifest(manifest string) ([]Document, error) {
	if len(manifest) > MaxBytes {
		return nil, fmt.Errorf("the manifest has %d bytes, more than the limit of %d: split the chart", len(manifest), MaxBytes)
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	var documents []Document
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		// The reader leaves the separator before the first document.
		documents = append(documents, Document{Text: bytes.TrimPrefix(text, []byte("---\n"))})
	}
}

// parseDocument returns the objects of a document: one in YAML, or any number in a stream
// of JSON.
func parseDocument(text []byte) ([]*unstructured.Unstructured, error) {
	if !yaml.IsJSONBuffer(text) {
		content, err := kyaml.YAMLToJSON(text)
		if err != nil {
			return nil, err
		}
		object, err := parseObject(content)
		if object == nil || err != nil {
			return nil, err
		}
		return []*unstructured.Unstructured{object}, nil
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var content runtime.RawExtension
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object, err := parseObject(content.Raw)
		if err != nil {
			return nil, err
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
}

// parseObject returns nil when the content is empty. It keeps integers, because a float
// loses digits of large ones.
func parseObject(content []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if len(content) > 0 {
		if err := json.Unmarshal(content, &object.Object); err != nil {
			return nil, err
		}
	}
	if len(object.Object) == 0 {
		return nil, nil
	}
	return object, nil
}

// Hash returns the HMAC-SHA256, in hex, of a manifest without the values of Secrets.
func Hash(key string, documents []Document) string {
	hash := hmac.New(sha256.New, []byte(key))
	for _, document := range documents {
		hash.Write([]byte("---\n"))
		hash.Write(withoutSecrets(document))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// withoutSecrets returns the text of a document. For a document with Secrets, it returns
// its objects as JSON in which the Secrets' values are empty.
func withoutSecrets(d Document) []byte {
	isSecret := func(object *unstructured.Unstructured) bool {
		return object.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Secret"}
	}
	if !slices.ContainsFunc(d.Objects, func(object *unstructured.Unstructured) bool { return isSecret(object) || object.IsList() }) {
		return d.Text
	}
	var written []byte
	for _, object := range d.Objects {
		copied := object.DeepCopy()
		items := []any{copied.Object}
		if listed, ok := copied.Object["items"].([]any); ok && copied.IsList() {
			items = listed
		}
		for _, item := range items {
			fields, ok := item.(map[string]any)
			if !ok || !isSecret(&unstructured.Unstructured{Object: fields}) {
				continue
			}
			for _, field := range []string{"data", "stringData"} {
				values, _ := fields[field].(map[string]any)
				for key := range values {
					values[key] = ""
				}
			}
		}
		content, err := copied.MarshalJSON()
		if err != nil {
			continue // An object from JSON can be encoded.
		}
		written = append(written, content...)
	}
	return written
}
