// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"
)

// Owners makes the owner the controller of the release's objects. It adds the
// reference to the objects that are applied, and to the manifest that Helm stores, so that
// `helm rollback` keeps it. It is not a post-renderer of Helm, because that would parse and
// write all documents twice more.
type Owners struct {
	Owner     metav1.OwnerReference
	Namespace string
	// Renewed says that the manifests may have an earlier owner, which is replaced.
	Renewed bool
	// Namespaced reports whether a kind is namespaced.
	Namespaced func(schema.GroupVersionKind) (bool, error)
	// text is the owner as YAML in metadata; set at the first use.
	text []byte
}

// Own adds the owner to an object, or to the items of a List.
func (r *Owners) Own(object *unstructured.Unstructured) error {
	if object.IsList() {
		return object.EachListItem(func(item runtime.Object) error {
			child, ok := item.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("item of %s %q: unexpected %T", object.GetKind(), object.GetName(), item)
			}
			return r.Own(child)
		})
	}
	if IsKept(object) {
		return nil
	}
	if namespace := object.GetNamespace(); namespace != "" && namespace != r.Namespace {
		return nil
	}
	namespaced, err := r.Namespaced(object.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return nil // The kind is not served. Building the manifest reports it.
	}
	if err != nil {
		return err
	}
	if !namespaced {
		return nil
	}
	object.SetOwnerReferences(append(r.others(object), r.Owner))
	return nil
}

// others returns the further owners of the object. With renewed, it omits the controller, because
// an object has only one, and an earlier owner of the same kind and name.
func (r *Owners) others(object *unstructured.Unstructured) []metav1.OwnerReference {
	return slices.DeleteFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == r.Owner.UID || r.Renewed && (ptr.Deref(reference.Controller, false) ||
			reference.Kind == r.Owner.Kind && reference.Name == r.Owner.Name)
	})
}

// Write returns the manifest with the owner references, and its documents. A document that has the
// references already, or gets none, stays the same to the byte.
func (r *Owners) Write(manifest string, documents []Document) (string, []Document, error) {
	changed := false
	written := make([]Document, 0, len(documents))
	for _, document := range documents {
		rewritten, err := r.rewrite(document)
		if err != nil {
			return "", nil, err
		}
		changed = changed || len(rewritten) != 1 || !bytes.Equal(rewritten[0].Text, document.Text)
		written = append(written, rewritten...)
	}
	if !changed {
		return manifest, documents, nil
	}
	return Text(written), written, nil
}

// rewrite returns a document with the owner references. The rest of the text stays the same.
// Otherwise a key such as n, which YAML 1.1 reads as a boolean, would be stored under another
// name. Only a text that cannot be edited, or that is a stream of JSON, is written again from its
// objects: one document for each.
func (r *Owners) rewrite(d Document) ([]Document, error) {
	changed := false
	owned := make([]*unstructured.Unstructured, 0, len(d.Objects))
	for _, object := range d.Objects {
		copied := object.DeepCopy()
		if err := r.Own(copied); err != nil {
			return nil, err
		}
		changed = changed || !Equal(object, copied)
		owned = append(owned, copied)
	}
	if !changed {
		return []Document{d}, nil
	}
	if len(owned) == 1 && !owned[0].IsList() && !hasReferences(d.Objects[0]) {
		if r.text == nil {
			var err error
			if r.text, err = kyaml.Marshal(map[string]any{"ownerReferences": []metav1.OwnerReference{r.Owner}}); err != nil {
				return nil, err
			}
		}
		if text, ok := insertMetadata(d.Text, r.text); ok {
			return []Document{{Text: text, Objects: owned}}, nil
		}
	}
	if len(owned) == 1 {
		if text, ok := editOwners(d.Text, d.Objects[0], owned[0]); ok {
			return []Document{{Text: text, Objects: owned}}, nil
		}
	}
	return writeAnew(d, owned)
}

// hasReferences reports whether an object has the field, even if it is empty.
func hasReferences(object *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", "ownerReferences")
	return found || err != nil
}

// insertMetadata inserts fields at the start of an object's metadata, and keeps the rest of
// the text. It returns false where the place is not certain. In a block mapping, each key
// starts a line without indentation, so the only line that starts with "metadata:" is the
// key, unless quoted text or a flow collection from before continues there.
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

// isCompleteEntry reports whether a line is certain to be a key whose value ends on the line.
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
