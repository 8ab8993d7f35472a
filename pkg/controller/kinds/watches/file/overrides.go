// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/Masterminds/sprig/v3"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

const (
	// maxOverrides limits the number of overrides of an entry.
	maxOverrides = 1000
	// maxOverrideBytes limits the value of an override after its expansion.
	maxOverrideBytes = 64 << 10
	// maxCount limits numbers that a template passes to functions whose result grows with them.
	maxCount = maxOverrideBytes
)

// Overrides are values that win over the resource's values. They can be secret. So fmt and loggers
// show only their keys.
type Overrides struct {
	keys   []string
	values map[string]string
	// Equal compares source: the values before their expansion.
	source map[string]string
	// unset are the errors about variables that are not set.
	unset []error
}

// NewOverrides returns overrides. A key is a path as in helm install --set, and its value is used
// as it is.
func NewOverrides(values map[string]string) Overrides {
	return Overrides{keys: slices.Sorted(maps.Keys(values)), values: maps.Clone(values), source: maps.Clone(values)}
}

// Keys returns the paths of the overrides, sorted.
func (o Overrides) Keys() []string { return slices.Clone(o.keys) }

// Values returns the overrides by their paths, as helm install --set has them. They can be secret.
func (o Overrides) Values() map[string]string { return maps.Clone(o.values) }

// String returns the keys.
func (o Overrides) String() string { return strings.Join(o.keys, ", ") }

// GoString returns the keys.
func (o Overrides) GoString() string { return fmt.Sprintf("Overrides(%s)", o) }

// MarshalText returns the keys.
func (o Overrides) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// readOverrides reads overrideValues and expands its values. Its errors show no value. A variable
// that is not set is no error of the file: the entry alone waits.
func readOverrides(f field) Overrides {
	source, expanded := map[string]string{}, map[string]string{}
	var missing []error
	f.keys(joinKey, func(key *yamlv3.Node, value field) {
		text, err := overrideText(value)
		if err == nil {
			expanded[key.Value], err = expandOverride(text, f.reader.env)
		}
		if unset := (*unsetError)(nil); errors.As(err, &unset) {
			missing = append(missing, value.position.error(value.Line, value.path, err))
			delete(expanded, key.Value)
			err = nil
		}
		if err == nil && (key.Value == "" || strings.Contains(key.Value, "=")) {
			err = errors.New("is not a path of a value; write for example image.tag")
		}
		if err != nil {
			value.refuse("%w", err)
		}
		source[key.Value] = text
	})
	if len(source) > maxOverrides {
		f.refuse("has %d values, and may have %d", len(source), maxOverrides)
	}
	overrides := NewOverrides(expanded)
	overrides.source, overrides.unset = source, missing
	return overrides
}

// overrideText returns the value of an override as upstream reads it, by sigs.k8s.io/yaml into a
// string: 3 is "3", yes is "true", and a value that is absent is empty.
func overrideText(f field) (string, error) {
	switch {
	case f.Kind != yamlv3.ScalarNode:
		kind := "an object"
		if f.Kind == yamlv3.SequenceNode {
			kind = "a list"
		}
		return "", fmt.Errorf("must be a text, got %s; write one key for each value, as in helm install --set", kind)
	case f.Style != 0 || strings.ContainsAny(f.Value, "\n\r"):
		return f.Value, nil
	}
	var converted struct {
		Value string `json:"value"`
	}
	if err := yaml.Unmarshal([]byte("value: "+f.Value), &converted); err != nil {
		return "", errors.New("must be a text; put it in quotes")
	}
	return converted.Value, nil
}

// expandOverride expands a value as upstream does: os.ExpandEnv, and then a template without data.
// Errors of templates quote the template, into which the environment was expanded. So they are not
// part of the error. It returns an [*unsetError] for a variable that is not set, because an empty
// text in its place would make another value of the same form, such as the image "/pause:3.9".
func expandOverride(text string, env func(string) (string, bool)) (string, error) {
	variables := &variables{env: env}
	text = os.Expand(text, variables.require)
	if err := variables.err(); err != nil {
		return "", err // The text may be no valid template without the variable.
	}
	if len(text) > maxOverrideBytes {
		return "", errOverrideTooLarge
	}
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	parsed, err := template.New("").Funcs(overrideFunctions(variables)).Parse(text)
	if err != nil {
		return "", errors.New("is not a valid Go template; check its brackets and the names of its functions, which are the text functions of sprig")
	}
	requireVariables(parsed.Root)
	output := &limitedBuffer{limit: maxOverrideBytes}
	err = parsed.Execute(output, nil)
	switch {
	case variables.err() != nil:
		return "", variables.err()
	case output.exceeded:
		return "", errOverrideTooLarge
	case err != nil:
		return "", errors.New("is a Go template that fails; check the arguments of its functions")
	}
	return output.String(), nil
}

var errOverrideTooLarge = fmt.Errorf("has more than %d bytes after its expansion; make it shorter", maxOverrideBytes)

// variables looks up variables of the environment for one value.
type variables struct {
	env   func(string) (string, bool)
	unset *unsetError
}

// lookup returns the value of a variable; empty if it is not set.
func (v *variables) lookup(name string) string {
	value, _ := v.env(name)
	return value
}

// require returns the value of a variable that must be set.
func (v *variables) require(name string) string {
	value, set := v.env(name)
	if !set && v.unset == nil {
		v.unset = &unsetError{name}
	}
	return value
}

// err returns the error about the first variable that is not set.
func (v *variables) err() error {
	if v.unset == nil {
		return nil
	}
	return v.unset
}

// unsetError says that a variable is not set.
type unsetError struct{ name string }

// conventional is the form of a variable that an error may name. Other texts after a dollar may be
// a part of a password.
var conventional = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// Error implements error.
func (e *unsetError) Error() string {
	if !conventional.MatchString(e.name) {
		return `has a "$" without a variable of the environment that is set; write '{{ "\x24" }}' for a dollar`
	}
	return fmt.Sprintf("the environment variable %s is not set; set it, also to an empty text, or write '{{ env %q | default \"\" }}'", e.name, e.name)
}

// requireEnv is the name of the function in place of env where the variable must be set.
const requireEnv = "requireEnv"

// defaults are functions of a pipeline that give a variable that is not set a meaning.
var defaults = []string{"default", "coalesce", "empty", "ternary"}

// requireVariables has env fail for a variable that is not set where its value is written as it is.
// A condition or a default may ask whether a variable is set.
func requireVariables(node parse.Node) {
	switch node := node.(type) {
	case *parse.ListNode:
		if node == nil {
			return
		}
		for _, child := range node.Nodes {
			requireVariables(child)
		}
	case *parse.IfNode:
		requireVariables(node.List)
		requireVariables(node.ElseList)
	case *parse.WithNode:
		requireVariables(node.List)
		requireVariables(node.ElseList)
	case *parse.RangeNode:
		requireVariables(node.List)
		requireVariables(node.ElseList)
	case *parse.ActionNode:
		used := identifiers(node.Pipe)
		if slices.ContainsFunc(used, func(function *parse.IdentifierNode) bool { return slices.Contains(defaults, function.Ident) }) {
			return
		}
		for _, function := range used {
			if function.Ident == "env" {
				function.Ident = requireEnv
			}
		}
	}
}

// identifiers returns the names of functions in a pipeline.
func identifiers(pipe *parse.PipeNode) (found []*parse.IdentifierNode) {
	for _, command := range pipe.Cmds {
		for _, argument := range command.Args {
			switch argument := argument.(type) {
			case *parse.IdentifierNode:
				found = append(found, argument)
			case *parse.PipeNode:
				found = append(found, identifiers(argument)...)
			}
		}
	}
	return found
}

// overrideFunctions are the text functions of sprig, see the documentation of the package.
func overrideFunctions(variables *variables) template.FuncMap {
	functions := sprig.TxtFuncMap()
	delete(functions, "getHostByName")
	functions["env"], functions[requireEnv] = variables.lookup, variables.require
	functions["expandenv"] = func(text string) string { return os.Expand(text, variables.require) }
	for _, name := range []string{
		"repeat", "indent", "nindent", "until", "untilStep", "seq", "randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes",
	} {
		functions[name] = countLimited(functions[name])
	}
	return functions
}

// countLimited returns a function that fails if one of its numbers exceeds maxCount.
func countLimited(function any) any {
	limited := reflect.ValueOf(function)
	check := func(value reflect.Value) {
		if number := value.Int(); number > maxCount || number < -maxCount {
			// A template returns the panic of a function as its error.
			panic(fmt.Errorf("%d is too large", number))
		}
	}
	return reflect.MakeFunc(limited.Type(), func(arguments []reflect.Value) []reflect.Value {
		for _, argument := range arguments {
			switch argument.Kind() {
			case reflect.Int:
				check(argument)
			case reflect.Slice: // The numbers of a variadic function.
				for i := range argument.Len() {
					check(argument.Index(i))
				}
			}
		}
		if limited.Type().IsVariadic() {
			return limited.CallSlice(arguments)
		}
		return limited.Call(arguments)
	}).Interface()
}

// limitedBuffer is a buffer that refuses to exceed its limit.
type limitedBuffer struct {
	bytes.Buffer
	limit    int
	exceeded bool
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(data []byte) (int, error) {
	if b.Len()+len(data) > b.limit {
		b.exceeded = true
		return 0, errors.New("the output is too long")
	}
	return b.Buffer.Write(data)
}
