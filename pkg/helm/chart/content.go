// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// Content is the part of a chart that describes its values.
type Content struct {
	Name string
	// Values are the defaults, and ValuesText is values.yaml with its comments.
	Values     map[string]any
	ValuesText []byte
	// Schema is values.schema.json; nil without one.
	Schema []byte
	// Templates are the texts of all templates by their names, such as templates/service.yaml.
	Templates map[string]string
	// Library reports whether the chart has templates for other charts only.
	Library bool
	// CRDs reports whether the chart has files below crds/.
	CRDs bool
	// Dependencies are the contents of the sub-charts, by the key of their values: the alias or the
	// name.
	Dependencies map[string]Content
}

// Content returns the part of the chart that describes its values. The error wraps [ErrInvalid].
func (c *Chart) Content() (Content, error) {
	parsed, err := c.Parse()
	if err != nil {
		return Content{}, err
	}
	return contentOf(parsed), nil
}

func contentOf(parsed *chartv2.Chart) Content {
	content := Content{
		Name: parsed.Name(), Values: parsed.Values, Schema: parsed.Schema, Templates: map[string]string{},
		Library: parsed.Metadata.Type == "library", CRDs: len(parsed.CRDObjects()) > 0, Dependencies: map[string]Content{},
	}
	for _, file := range parsed.Raw {
		if file.Name == "values.yaml" {
			content.ValuesText = bytes.TrimPrefix(file.Data, []byte("\ufeff"))
		}
	}
	for _, file := range parsed.Templates {
		content.Templates[file.Name] = string(file.Data)
	}
	aliases := map[string][]string{}
	for _, dependency := range parsed.Metadata.Dependencies {
		if dependency.Alias != "" {
			aliases[dependency.Name] = append(aliases[dependency.Name], dependency.Alias)
		}
	}
	for _, dependency := range parsed.Dependencies() {
		names := aliases[dependency.Name()]
		if len(names) == 0 {
			names = []string{dependency.Name()}
		}
		for _, name := range names {
			content.Dependencies[name] = contentOf(dependency)
		}
	}
	return content
}
