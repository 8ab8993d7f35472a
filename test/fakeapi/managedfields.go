// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// clientScheme has the built-in kinds only; client-go's global scheme may have more.
var clientScheme = func() *runtime.Scheme {
	known := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	return known
}()

// builtinConverter has the schemas of the built-in kinds. It is shared, because parsing
// them takes long.
var builtinConverter = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(clientScheme) })

// fieldManager returns the API server's own implementation of managedFields.
func (s *Server) fieldManager(kind schema.GroupVersionKind, subresource string) *managedfields.FieldManager {
	converter := managedfields.NewDeducedTypeConverter()
	if clientScheme.Recognizes(kind) {
		converter = builtinConverter()
	}
	manager, err := managedfields.NewDefaultCRDFieldManager(converter, untyped{}, untyped{}, untyped{kind}, kind, kind.GroupVersion(), subresource, nil)
	if err != nil {
		s.t.Fatalf("fake server: %v", err)
	}
	return manager
}

// untyped lets the field manager work on unstructured objects of one version.
type untyped struct{ kind schema.GroupVersionKind }

func (untyped) Convert(_, _, _ any) error { return errors.New("unstructured objects have one version") }

func (untyped) ConvertToVersion(object runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return object, nil
}

func (untyped) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (untyped) Default(runtime.Object) {}

func (u untyped) New(schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(u.kind)
	return object, nil
}
