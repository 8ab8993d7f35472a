// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/example/demoapp-controller/pkg/message"
)

// ErrInvalidValues is wrapped by the error of values that do not meet the schema of the
// chart.
var ErrInvalidValues = errors.New("values do not meet the chart's schema")

// schemaURL is the address of a chart's schema. Helm uses the same address, against which relative
// references are resolved.
const schemaURL = "file:///values.schema.json"

// valuesSchema is a compiled values.schema.json.
type valuesSchema struct {
	// validator is nil if every value is accepted.
	validator *jsonschema.Schema
	// remote are the references that lead out of the schema.
	remote []string
	// err says why the schema cannot be used.
	err error
}

// valuesSchemas are the schemas of a chart and its sub-charts by [schemaKey]. Compiling a schema takes
// longer than rendering the templates.
type valuesSchemas map[string]valuesSchema

// compileSchemas compiles the schemas of a chart and its sub-charts.
func compileSchemas(chart *chartv2.Chart) valuesSchemas {
	compiled := valuesSchemas{}
	compiled.add(chart)
	return compiled
}

func (s valuesSchemas) add(chart *chartv2.Chart) {
	if key := schemaKey(chart); chart.Schema != nil {
		if _, ok := s[key]; !ok {
			s[key] = compileSchema(chart)
		}
	}
	for _, dependency := range chart.Dependencies() {
		s.add(dependency)
	}
}

// schemaKey returns the inputs of the schema of a chart: its text, and the files that it may refer
// to. An alias of a sub-chart changes the chart's name.
func schemaKey(chart *chartv2.Chart) string {
	text := string(chart.Schema)
	if !strings.Contains(text, ".json") {
		return text
	}
	files := schemaFiles(chart)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text += fmt.Sprintf("\x00%q %x", name, sha256.Sum256(files[name]))
	}
	return text
}

// compileSchema compiles the schema of a chart. It reads nothing but files of the chart: a chart must
// not choose which files and addresses the operator reads, see [localize].
func compileSchema(chart *chartv2.Chart) (compiled valuesSchema) {
	defer recovered(func(err error) { compiled = valuesSchema{err: err} })
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(chart.Schema))
	if err != nil {
		return valuesSchema{err: unusable(err)}
	}
	documents, remote := localize(document, chart)
	compiled.remote = remote
	documents[anyValue] = true
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // It has no scheme, so it loads nothing.
	for at, document := range documents {
		if err := compiler.AddResource(at, document); err != nil {
			return valuesSchema{err: unusable(err)}
		}
	}
	compiled.validator, err = compiler.Compile(schemaURL)
	var unread *jsonschema.LoadURLError
	switch {
	case errors.As(err, &unread):
		// A reference in a place that localize does not take for a schema.
		return valuesSchema{remote: append(compiled.remote, shown(unread.URL))}
	case err != nil:
		return valuesSchema{err: unusable(err)}
	}
	return compiled
}

// unusable returns the error of a schema that is no JSON schema, in one line.
func unusable(err error) error {
	return fmt.Errorf("values.schema.json is not a valid JSON schema: %s", strings.Join(strings.Fields(err.Error()), " "))
}

// recovered passes a panic of the schema library to undo, as an error.
func recovered(undo func(error)) {
	if caught := recover(); caught != nil {
		undo(unusable(fmt.Errorf("%v", caught)))
	}
}

// CheckValues validates values, merged with the chart's own, by the schemas of the chart and its
// enabled sub-charts, as Helm does. Unlike Helm, it never follows a reference to another file or
// address: such a reference accepts every value, see [Chart.SchemaNote]. The error wraps
// [ErrInvalidValues] if the values do not meet a schema.
func (c *Chart) CheckValues(values map[string]any) error {
	if len(c.schemas) == 0 {
		return nil
	}
	parsed, err := c.Parse()
	if err != nil {
		return err
	}
	return c.schemas.check(parsed, values)
}

// CheckValues validates values by the schemas of a chart that a release record has, see
// [Chart.CheckValues].
func CheckValues(recorded *chartv2.Chart, values map[string]any) error {
	if recorded.Metadata == nil {
		return nil // Helm refuses the chart.
	}
	copied, metadata := *recorded, *recorded.Metadata
	copied.Metadata, copied.Values = &metadata, runtime.DeepCopyJSON(recorded.Values)
	return compileSchemas(&copied).check(&copied, values)
}

// check validates the values. It changes the chart.
func (s valuesSchemas) check(chart *chartv2.Chart, values map[string]any) error {
	if len(s) == 0 {
		return nil
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return nil //nolint:nilerr // Helm reports the same error.
	}
	all, err := util.CoalesceValues(chart, values)
	if err != nil {
		return nil //nolint:nilerr // As above.
	}
	found := &violations{}
	if err := s.validate(chart, nil, all.AsMap(), found); err != nil {
		return err
	}
	return found.err()
}

// validate adds the violations of a chart and its sub-charts. path leads to the values of the chart.
func (s valuesSchemas) validate(chart *chartv2.Chart, path []string, values map[string]any, found *violations) (err error) {
	defer recovered(func(caught error) { err = caught })
	if schema := s[schemaKey(chart)]; chart.Schema != nil {
		if schema.err != nil {
			return inChart(path, schema.err)
		}
		if schema.validator != nil {
			found.add(path, schema.validator.Validate(values))
		}
	}
	for _, dependency := range chart.Dependencies() {
		below, ok := values[dependency.Name()].(map[string]any)
		if !ok {
			continue // Nothing is set for the sub-chart.
		}
		if err := s.validate(dependency, append(slices.Clone(path), dependency.Name()), below, found); err != nil {
			return err
		}
	}
	return nil
}

// inChart names the sub-chart that an error is about.
func inChart(path []string, err error) error {
	if len(path) == 0 {
		return err
	}
	return fmt.Errorf("sub-chart %s: %w", strings.Join(path, "/"), err)
}

// SchemaNote says which references of values.schema.json are not read; empty if all references are read.
func (c *Chart) SchemaNote() string {
	var remote []string
	for _, schema := range c.schemas {
		remote = append(remote, schema.remote...)
	}
	slices.Sort(remote)
	remote = slices.Compact(remote)
	if len(remote) == 0 {
		return ""
	}
	return fmt.Sprintf("values.schema.json refers to %s: the operator does not read other files and addresses, so these references accept every value",
		message.List(remote, maxViolations))
}

// Limits of an error about values that do not meet a schema. A longer part is left out as a
// whole and never cut, because a part of a secret could not be redacted.
const (
	maxViolations     = 3
	maxViolationPath  = 512
	maxViolationWhy   = 512
	maxPropertiesInIt = 3
)

// violations collects the first violations of several schemas. The library would list all of them.
type violations struct {
	named []string
	found int
}

func (v *violations) note(text string) {
	if v.found++; v.found <= maxViolations {
		v.named = append(v.named, text)
	}
}

// add adds the violations in the result of a validator, for values at a path.
func (v *violations) add(path []string, err error) {
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		eachViolation(invalid, func(violation *jsonschema.ValidationError) {
			v.note(ValuePath(slices.Concat(path, violation.InstanceLocation)) + ": " + violationText(violation.ErrorKind))
		})
	} else if err != nil {
		v.note(ValuePath(path) + ": " + err.Error())
	}
}

// err returns an error of one line with the first violations; nil without violations.
func (v *violations) err() error {
	if v.found == 0 {
		return nil
	}
	text := strings.Join(v.named, "; ")
	if more := v.found - len(v.named); more > 0 {
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
