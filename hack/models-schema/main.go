// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/example/demoapp-controller/pkg/generated/openapi"
)

func main() {
	if err := printSchema(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "models-schema:", err)
		os.Exit(1)
	}
}

func printSchema(w io.Writer) error {
	generated := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + name)
	})
	definitions := make(spec.Definitions, len(generated))
	for name, definition := range generated {
		definitions[name] = schemaV2(definition)
	}
	return json.NewEncoder(w).Encode(&spec.Swagger{
		SwaggerProps: spec.SwaggerProps{
			Swagger:     "2.0",
			Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "DemoApp", Version: "v1alpha1"}},
			Definitions: definitions,
		},
	})
}

// schemaV2 returns the v2 schema of a type, which stands in an extension where
// it differs from the v3 one (as for IntOrString).
func schemaV2(definition common.OpenAPIDefinition) spec.Schema {
	if v2, ok := definition.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
		return v2
	}
	return definition.Schema
}
