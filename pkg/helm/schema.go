// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// valuesSchema is a chart's values.schema.json, compiled. Helm compiles it for each
// rendering, which takes longer than the templates do.
type valuesSchema struct {
	compiled *jsonschema.Schema
}

// compileSchema returns nil for charts that are left to Helm: those without a
// schema, those with sub-charts, of which values decide what is validated, and those
// whose schema refers to others, which Helm may have to fetch.
func compileSchema(chart *chartv2.Chart) (compiled *valuesSchema) {
	defer leaveToHelm(func() { compiled = nil })
	if len(chart.Schema) == 0 || len(chart.Metadata.Dependencies) > 0 || len(chart.Dependencies()) > 0 {
		return nil
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(chart.Schema))
	if err != nil {
		return nil
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	// The name is the one that Helm gives it. References are resolved against it.
	const name = "file:///values.schema.json"
	if err := compiler.AddResource(name, document); err != nil {
		return nil
	}
	validator, err := compiler.Compile(name)
	if err != nil {
		return nil
	}
	return &valuesSchema{compiled: validator}
}

// accepts reports whether the values, together with the chart's own, are known to
// meet the schema. Of all others Helm finds out, and says what is wrong.
func (s *valuesSchema) accepts(chart *chartv2.Chart, values map[string]any) (accepted bool) {
	if s == nil {
		return false
	}
	defer leaveToHelm(func() { accepted = false })
	all, err := util.CoalesceValues(chart, values)
	return err == nil && s.compiled.Validate(all.AsMap()) == nil
}

// leaveToHelm recovers from a panic of the library, as Helm does, which then says what
// is wrong.
func leaveToHelm(undo func()) {
	if recover() != nil {
		undo()
	}
}
