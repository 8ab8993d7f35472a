// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"
)

// ownerReferences is a post-renderer that makes one object the controller of
// all the others. It runs in process, on the manifests that Helm would store,
// so that the references are part of the release and `helm rollback` keeps them.
type ownerReferences struct {
	owner     metav1.OwnerReference
	namespace string
	// renewed says that the manifests may have an owner of earlier times.
	renewed bool
	// namespaced reports whether objects of a kind lie in a namespace.
	namespaced func(schema.GroupVersionKind) (bool, error)
}

// Run implements postrenderer.PostRenderer.
func (r *ownerReferences) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	reader := yaml.NewYAMLOrJSONDecoder(manifests, 4096)
	rendered := &bytes.Buffer{}
	for {
		object, err := nextObject(reader)
		if errors.Is(err, io.EOF) {
			return rendered, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parse rendered manifest: %w", err)
		}
		if err := r.own(object); err != nil {
			return nil, err
		}
		document, err := kyaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		rendered.WriteString("---\n")
		rendered.Write(document)
	}
}

// nextObject reads the next document that is not empty; io.EOF ends them. It
// keeps integers as integers: a float loses digits of large ones.
func nextObject(reader *yaml.YAMLOrJSONDecoder) (*unstructured.Unstructured, error) {
	for {
		var document runtime.RawExtension
		if err := reader.Decode(&document); err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if len(document.Raw) > 0 {
			if err := json.Unmarshal(document.Raw, &object.Object); err != nil {
				return nil, err
			}
		}
		if len(object.Object) > 0 {
			return object, nil
		}
	}
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

// renew puts the owner into a stored manifest, in place of an earlier one.
// Documents that have it already stay as they are, to the byte.
func (r *ownerReferences) renew(manifest string) (string, error) {
	renewer := *r
	renewer.renewed = true
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	var renewed strings.Builder
	changed := false
	for {
		before, err := reader.Read()
		if errors.Is(err, io.EOF) && changed {
			return renewed.String(), nil
		}
		if errors.Is(err, io.EOF) {
			return manifest, nil
		}
		if err != nil {
			return "", fmt.Errorf("parse manifest: %w", err)
		}
		before = bytes.TrimPrefix(before, []byte("---\n")) // The reader leaves it before the first.
		after, err := renewer.renewDocument(before)
		if err != nil {
			return "", err
		}
		changed = changed || !bytes.Equal(before, after)
		renewed.WriteString("---\n")
		renewed.Write(after)
	}
}

func (r *ownerReferences) renewDocument(document []byte) ([]byte, error) {
	object, err := nextObject(yaml.NewYAMLOrJSONDecoder(bytes.NewReader(document), 4096))
	if errors.Is(err, io.EOF) {
		return document, nil // Comments only.
	}
	if err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	before := object.DeepCopy()
	if err := r.own(object); err != nil || equalContent(before, object) {
		return document, err
	}
	var renewed bytes.Buffer
	for line := range bytes.Lines(document) {
		if !bytes.HasPrefix(line, []byte("#")) {
			break
		}
		renewed.Write(line) // Helm notes there which file it is from.
	}
	content, err := kyaml.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("write %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	renewed.Write(content)
	return renewed.Bytes(), nil
}
