// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// converter knows the schemas of the built-in kinds.
var converter = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// typeOf returns an empty object of the kind with its schema. For a custom resource, it returns an
// object of a built-in kind, and false.
func typeOf(object *unstructured.Unstructured) (_ *typed.TypedValue, builtin bool, _ error) {
	kind := object.GroupVersionKind()
	if builtin = scheme.Scheme.Recognizes(kind); !builtin {
		kind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	}
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(kind)
	known, err := converter().ObjectToTyped(example)
	return known, builtin, err
}

// WithoutUnknownFields returns a copy of an object of a built-in kind without the fields that the
// kind does not have, and the paths of these fields. The schemas come from client-go: the API
// server may know more fields. A custom resource has no unknown fields.
func WithoutUnknownFields(object *unstructured.Unstructured) (_ *unstructured.Unstructured, fields []string) {
	known, builtin, err := typeOf(object)
	if err != nil || !builtin {
		return object, nil
	}
	copied := object.DeepCopy()
	p := &pruner{schema: known.Schema()}
	p.visit(known.TypeRef(), copied.Object, "")
	return copied, p.fields
}

// pruner removes unknown fields.
type pruner struct {
	schema *schema.Schema
	fields []string
}

// visit removes the unknown fields of a value of a type.
func (p *pruner) visit(of schema.TypeRef, value any, path string) {
	atom, ok := p.schema.Resolve(of)
	if !ok {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		if atom.Map == nil {
			return
		}
		isOpen := !atom.Map.ElementType.Equals(&schema.TypeRef{})
		for _, name := range slices.Sorted(maps.Keys(value)) {
			field, ok := atom.Map.FindField(name)
			switch {
			case ok:
				p.visit(field.Type, value[name], join(path, name))
			case !isOpen:
				p.fields = append(p.fields, join(path, name))
				delete(value, name)
			}
		}
	case []any:
		for i, item := range value {
			if atom.List != nil {
				p.visit(atom.List.ElementType, item, itemPath(path, item, i))
			}
		}
	}
}
