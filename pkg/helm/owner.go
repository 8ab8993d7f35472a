// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"
)

// ownerReferences is a post-renderer that makes one object the controller of
// all the others. It runs in process, on the manifests that Helm would store,
// so that the references are part of the release and `helm rollback` keeps them.
type ownerReferences struct {
	owner     metav1.OwnerReference
	namespace string
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
	references := slices.DeleteFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == r.owner.UID
	})
	object.SetOwnerReferences(append(references, r.owner))
	return nil
}
