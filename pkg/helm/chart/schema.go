// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// ErrInvalidValues is wrapped by the error of values that do not meet the schema of the
// chart.
var ErrInvalidValues = errors.New("values do not meet the chart's schema")

// valuesSchema is a chart's compiled values.schema.json. Helm compiles it for each rendering,
// which takes longer than rendering the templates.
type valuesSchema struct {
	compiled *jsonschema.Schema
}

// compileSchema returns nil for charts whose values Helm validates itself: charts without a
// schema; charts with sub-charts, because values decide which of them are validated; and
// charts whose schema refers to other schemas, which Helm may have to fetch.
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
	// Helm uses the same name. References are resolved against it.
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

// check validates the values, merged with the chart's own, see [Chart.CheckValues].
func (s *valuesSchema) check(chart *chartv2.Chart, values map[string]any) (accepted bool, err error) {
	if s == nil {
		return false, nil
	}
	defer leaveToHelm(func() { accepted, err = false, nil })
	all, err := util.CoalesceValues(chart, values)
	if err != nil {
		return false, nil // Helm reports the same error.
	}
	err = s.compiled.Validate(all.AsMap())
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &invalid):
		return false, schemaError(invalid)
	default:
		return false, nil
	}
}

// leaveToHelm recovers from a panic of the schema library. Helm then validates the values and
// reports the error.
func leaveToHelm(undo func()) {
	if recover() != nil {
		undo()
	}
}

// Limits of an error about values that do not meet a schema. A longer part is left out as a
// whole and never cut, because a part of a secret could not be redacted.
const (
	maxViolations     = 3
	maxViolationPath  = 512
	maxViolationWhy   = 512
	maxPropertiesInIt = 3
)

// schemaError returns an error of one line with the first violations. The library would
// list all of them.
func schemaError(invalid *jsonschema.ValidationError) error {
	var named []string
	found := 0
	eachViolation(invalid, func(violation *jsonschema.ValidationError) {
		if found++; found <= maxViolations {
			named = append(named, ValuePath(violation.InstanceLocation)+": "+violationText(violation.ErrorKind))
		}
	})
	text := strings.Join(named, "; ")
	if more := found - len(named); more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return fmt.Errorf("%w: %s", ErrInvalidValues, text)
}

// eachViolation visits the violations without further causes.
func eachViolation(invalid *jsonschema.ValidationError, visit func(*jsonschema.ValidationError)) {
	if len(invalid.Causes) == 0 {
		visit(invalid)
	}
	for _, cause := range invalid.Causes {
		eachViolation(cause, visit)
	}
}

// violationText describes the violation of a value.
func violationText(violation jsonschema.ErrorKind) string {
	switch violation := violation.(type) {
	case *kind.AdditionalProperties:
		return namedProperties(violation.Properties)
	case *kind.FalseSchema:
		return "is not allowed"
	}
	// Without a location, the library writes only the violation.
	text := strings.TrimPrefix((&jsonschema.ValidationError{ErrorKind: violation}).Error(), "at '': ")
	if len(text) > maxViolationWhy {
		return fmt.Sprintf("does not meet %q", strings.Join(violation.KeywordPath(), "/"))
	}
	return text
}

// namedProperties returns the violation of properties that are not allowed.
func namedProperties(names []string) string {
	var named []string
	length := 0
	for _, name := range names {
		length += len(name)
		if len(named) == maxPropertiesInIt || length > maxViolationWhy {
			break
		}
		named = append(named, strconv.Quote(name))
	}
	switch more := len(names) - len(named); {
	case len(named) == 0:
		return fmt.Sprintf("%d properties are not allowed", more)
	case more > 0:
		return fmt.Sprintf("properties %s and %d more are not allowed", strings.Join(named, ", "), more)
	case len(named) == 1:
		return fmt.Sprintf("property %s is not allowed", named[0])
	default:
		return fmt.Sprintf("properties %s are not allowed", strings.Join(named, ", "))
	}
}

// ValuePath returns the path of a value: values.extraEnv[0].name.
func ValuePath(tokens []string) string {
	path := "values"
	for _, token := range tokens {
		step := "." + token
		if _, err := strconv.Atoi(token); err == nil {
			step = "[" + token + "]"
		} else if !plainName.MatchString(token) {
			step = "[" + strconv.Quote(token) + "]"
		}
		if len(path)+len(step) > maxViolationPath {
			return path + "..."
		}
		path += step
	}
	return path
}

// plainName matches a key that needs no quotes in a path.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// ValueNames returns the names of values in values.yaml and values.schema.json of the chart
// and its sub-charts, at any depth. Callers must not change the map.
func (c *Chart) ValueNames() map[string]bool { return c.valueNames() }

// findValueNames returns the names of values in a chart and its sub-charts.
func (c *Chart) findValueNames() map[string]bool {
	names := map[string]bool{}
	if parsed, err := c.Parse(); err == nil {
		valueNames(parsed, names)
	}
	return names
}

// valueNames collects the names of values in a chart.
func valueNames(chart *chartv2.Chart, names map[string]bool) {
	names[chart.Name()] = true
	keysIn(chart.Values, names)
	if schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(chart.Schema)); err == nil {
		propertiesIn(schema, names)
	}
	for _, dependency := range chart.Dependencies() {
		valueNames(dependency, names)
	}
}

// keysIn collects the keys of all objects in a value.
func keysIn(value any, names map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			names[key] = true
			keysIn(item, names)
		}
	case []any:
		for _, item := range value {
			keysIn(item, names)
		}
	}
}

// propertiesIn collects the names of all properties in a schema.
func propertiesIn(schema any, names map[string]bool) {
	switch schema := schema.(type) {
	case map[string]any:
		if properties, ok := schema["properties"].(map[string]any); ok {
			for name := range properties {
				names[name] = true
			}
		}
		for _, item := range schema {
			propertiesIn(item, names)
		}
	case []any:
		for _, item := range schema {
			propertiesIn(item, names)
		}
	}
}
