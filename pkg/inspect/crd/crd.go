// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd admits custom resources as the API server does, without a cluster. It uses the API
// server's own code: pruning, defaults, the schema and the rules of a CustomResourceDefinition.
package crd

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Definition is a version of a CustomResourceDefinition.
type Definition struct {
	Kind runtimeschema.GroupVersionKind
	// Internal is the definition in the API server's internal version, with its defaults.
	Internal *apiextensions.CustomResourceDefinition
	// Schema is the schema of the version, and Structural its structural form.
	Schema     *apiextensions.JSONSchemaProps
	Structural *schema.Structural

	openAPI validation.SchemaValidator
	rules   *cel.Validator
}

// Read returns the served versions of a CustomResourceDefinition.
func Read(definition *apiextensionsv1.CustomResourceDefinition) ([]*Definition, error) {
	definition = definition.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, internal, nil); err != nil {
		return nil, err
	}
	var found []*Definition
	for _, version := range internal.Spec.Versions {
		if !version.Served {
			continue
		}
		d := &Definition{
			Kind:     runtimeschema.GroupVersionKind{Group: internal.Spec.Group, Version: version.Name, Kind: internal.Spec.Names.Kind},
			Internal: internal, Schema: schemaOf(internal, version),
		}
		if d.Schema == nil {
			return nil, fmt.Errorf("spec.versions: version %s has no schema", version.Name)
		}
		var err error
		if d.Structural, err = schema.NewStructural(d.Schema); err != nil {
			return nil, fmt.Errorf("version %s: %w", version.Name, err)
		}
		if d.openAPI, _, err = validation.NewSchemaValidator(d.Schema); err != nil {
			return nil, fmt.Errorf("version %s: %w", version.Name, err)
		}
		d.rules = cel.NewValidator(d.Structural, true, celconfig.PerCallLimit)
		found = append(found, d)
	}
	return found, nil
}

// schemaOf returns the schema of a version. The conversion moves the schema that all versions share.
func schemaOf(internal *apiextensions.CustomResourceDefinition, version apiextensions.CustomResourceDefinitionVersion) *apiextensions.JSONSchemaProps {
	switch {
	case version.Schema != nil:
		return version.Schema.OpenAPIV3Schema
	case internal.Spec.Validation != nil:
		return internal.Spec.Validation.OpenAPIV3Schema
	default:
		return nil
	}
}

// Default removes the unknown fields of a new object and sets its defaults, in place. It returns the
// paths of the removed fields.
func (d *Definition) Default(object map[string]any) (unknown []string) {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.Structural)
	unknown = pruning.PruneWithOptions(object, d.Structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(object, d.Structural)
	return unknown
}

// Validate returns why the API server refuses a new object with defaults.
func (d *Definition) Validate(ctx context.Context, object map[string]any) field.ErrorList {
	if errs := validation.ValidateCustomResource(nil, object, d.openAPI); len(errs) > 0 {
		return errs
	}
	errs, _ := d.rules.Validate(ctx, nil, d.Structural, object, nil, celconfig.RuntimeCELCostBudget)
	return errs
}
