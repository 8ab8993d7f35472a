// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"
)

// ownerReferences makes one object the controller of all the others: in the
// manifest that Helm stores, so that the references are part of the release and
// `helm rollback` keeps them, and in the objects that are applied. It is no
// post-renderer of Helm, which parses and writes all documents twice more than
// that takes.
type ownerReferences struct {
	owner     metav1.OwnerReference
	namespace string
	// renewed says that the manifests may have an owner of earlier times.
	renewed bool
	// namespaced reports whether objects of a kind lie in a namespace.
	namespaced func(schema.GroupVersionKind) (bool, error)
	// text is the owner as it stands in the metadata of a manifest, once it was
	// needed.
	text []byte
}

func (r *ownerReferences) own(object *unstructured.Unstructured) error {
	if object.IsList() {
		return object.EachListItem(func(item runtime.Object) error {
			child, ok := item.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("item of %s %q: unexpected %T", object.GetKind(), object.GetName(), item)
			}
			return r.own(child)
		})
	}
	if object.GetAnnotations()[resourcePolicyAnnotation] == "keep" {
		return nil
	}
	if namespace := object.GetNamespace(); namespace != "" && namespace != r.namespace {
		return nil
	}
	namespaced, err := r.namespaced(object.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return nil // The kind does not exist; building the manifest says so.
	}
	if err != nil {
		return err
	}
	if !namespaced {
		return nil
	}
	object.SetOwnerReferences(append(r.others(object), r.owner))
	return nil
}

// others are the owners of the object besides the one that all objects get. An
// object has one controller at most; and an owner of the same name is the same
// one, made anew.
func (r *ownerReferences) others(object *unstructured.Unstructured) []metav1.OwnerReference {
	return slices.DeleteFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == r.owner.UID || r.renewed && (ptr.Deref(reference.Controller, false) ||
			reference.Kind == r.owner.Kind && reference.Name == r.owner.Name)
	})
}

// write returns the manifest with the references in it. Documents that have them
// already, or are to have none, stay as they are, to the byte.
func (r *ownerReferences) write(manifest string, documents []document) (string, error) {
	var written strings.Builder
	changed := false
	for _, document := range documents {
		text, err := r.rewrite(document)
		if err != nil {
			return "", err
		}
		changed = changed || !bytes.Equal(text, document.text)
		written.WriteString("---\n")
		written.Write(text)
	}
	if !changed {
		return manifest, nil
	}
	return written.String(), nil
}

// rewrite returns the text of a document with the references in it. Everything else
// stays as it is written. A key such as n, which YAML 1.1 reads as a boolean, would
// else be stored under another name. Only a text that cannot be edited, or that is a
// stream of JSON, is written anew from its objects.
func (r *ownerReferences) rewrite(d document) ([]byte, error) {
	changed := false
	owned := make([]*unstructured.Unstructured, 0, len(d.objects))
	for _, object := range d.objects {
		copied := object.DeepCopy()
		if err := r.own(copied); err != nil {
			return nil, err
		}
		changed = changed || !equalContent(object, copied)
		owned = append(owned, copied)
	}
	if !changed {
		return d.text, nil
	}
	if len(owned) == 1 && !owned[0].IsList() && !hasReferences(d.objects[0]) {
		if r.text == nil {
			var err error
			if r.text, err = kyaml.Marshal(map[string]any{"ownerReferences": []metav1.OwnerReference{r.owner}}); err != nil {
				return nil, err
			}
		}
		if text, ok := insertMetadata(d.text, r.text); ok {
			return text, nil
		}
	}
	if len(owned) == 1 {
		if text, ok := editOwners(d.text, d.objects[0], owned[0]); ok {
			return text, nil
		}
	}
	var text bytes.Buffer
	for line := range bytes.Lines(d.text) {
		if !bytes.HasPrefix(line, []byte("#")) {
			break
		}
		text.Write(line) // Helm notes there which file it is from.
	}
	for i, object := range owned {
		content, err := kyaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(content)
	}
	return text.Bytes(), nil
}

// hasReferences reports whether an object has the field, be it empty.
func hasReferences(object *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", "ownerReferences")
	return found || err != nil
}

// insertMetadata puts more fields at the beginning of an object's metadata, and
// leaves all else as it is written. It only does so where there can be no doubt:
// in a block mapping, each key begins a line of its own without indentation, so
// that the one line that begins with "metadata:" is its key, unless a text in quotes
// or a flow collection that began before goes on there.
func insertMetadata(text, fields []byte) ([]byte, bool) {
	const key = "metadata:"
	at, first, offset := -1, true, 0
	for line := range bytes.Lines(text) {
		offset += len(line)
		trimmed := bytes.TrimSpace(line)
		switch {
		case len(trimmed) == 0 || trimmed[0] == '#':
			continue
		case first && !isLetter(line[0]):
			return nil, false
		case bytes.HasPrefix(line, []byte(key)) && (at >= 0 || string(line) != key+"\n"):
			return nil, false
		case bytes.HasPrefix(line, []byte(key)):
			at = offset
		case at < 0 && bytes.ContainsAny(line, "\"'[{") && !isCompleteEntry(trimmed):
			return nil, false
		}
		first = false
	}
	if at < 0 {
		return nil, false
	}
	rest := bytes.TrimLeft(text[at:], " ")
	indent := text[at : len(text)-len(rest)]
	entry, _, _ := bytes.Cut(rest, []byte("\n"))
	if len(indent) == 0 || len(entry) == 0 || !isLetter(entry[0]) || !blockKey.Match(entry) {
		return nil, false
	}
	inserted := append(make([]byte, 0, len(text)+2*len(fields)), text[:at]...)
	for line := range bytes.Lines(fields) {
		inserted = append(append(inserted, indent...), line...)
	}
	return append(inserted, text[at:]...), true
}

// isCompleteEntry reports whether a line is certain to be a key with a value that ends
// there.
func isCompleteEntry(line []byte) bool {
	key := blockKey.Find(line)
	value := line[len(key):]
	switch {
	case key == nil || len(value) == 0:
		return key != nil
	case value[0] == '"' || value[0] == '\'':
		end := quoteEnd(value)
		return end > 0 && lineEnd.Match(value[end:])
	case value[0] == '[' || value[0] == '{':
		return isFlow(value)
	default:
		return plainText.Match(value)
	}
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
