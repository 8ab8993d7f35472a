// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "sigs.k8s.io/yaml"
)

// Text returns the manifest of documents.
func Text(documents []Document) string {
	var text strings.Builder
	for _, document := range documents {
		text.WriteString("---\n")
		text.Write(document.Text)
	}
	return text.String()
}

// Rewrite returns the documents after edit has changed copies of their objects, and reports whether it
// changed any. A document without a change stays the same to the byte.
func Rewrite(documents []Document, edit func(*unstructured.Unstructured) error) (rewritten []Document, changed bool, _ error) {
	for _, document := range documents {
		edited, differs := make([]*unstructured.Unstructured, 0, len(document.Objects)), false
		for _, object := range document.Objects {
			copied := object.DeepCopy()
			if err := edit(copied); err != nil {
				return nil, false, err
			}
			differs = differs || !Equal(object, copied)
			edited = append(edited, copied)
		}
		if !differs {
			rewritten = append(rewritten, document)
			continue
		}
		written, err := writeAnew(document, edited)
		if err != nil {
			return nil, false, err
		}
		rewritten, changed = append(rewritten, written...), true
	}
	return rewritten, changed, nil
}

// writeAnew returns documents with these objects in place of the objects of a document: one for each.
func writeAnew(d Document, objects []*unstructured.Unstructured) ([]Document, error) {
	var source []byte
	for line := range bytes.Lines(d.Text) {
		if !bytes.HasPrefix(line, []byte("#")) {
			break
		}
		source = append(source, line...) // Helm writes the name of the template there.
	}
	written := make([]Document, 0, len(objects))
	for i, object := range objects {
		content, err := kyaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		if i == 0 {
			content = append(source, content...)
		}
		written = append(written, Document{Text: content, Objects: objects[i : i+1]})
	}
	return written, nil
}
