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
	"slices"
	"strings"
	"text/template"

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

// Overrides are values that win over those of the resource. They can be secret. So fmt and loggers
// show only their keys.
type Overrides struct {
	keys   []string
	values map[string]string
	// source is what Equal compares: the values before their expansion.
	source map[string]string
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

// readOverrides reads overrideValues and expands its values. Its errors show no value.
func readOverrides(f field) Overrides {
	source, expanded := map[string]string{}, map[string]string{}
	f.keys(joinKey, func(key *yamlv3.Node, value field) {
		text, err := overrideText(value)
		if err == nil {
			expanded[key.Value], err = expandOverride(text, f.reader.env)
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
	overrides.source = source
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
// part of the error.
func expandOverride(text string, env func(string) (string, bool)) (string, error) {
	text = os.Expand(text, lookup(env))
	if len(text) > maxOverrideBytes {
		return "", errOverrideTooLarge
	}
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	parsed, err := template.New("").Funcs(overrideFunctions(env)).Parse(text)
	if err != nil {
		return "", errors.New("is not a valid Go template; check its brackets and the names of its functions, which are the text functions of sprig")
	}
	output := &limitedBuffer{limit: maxOverrideBytes}
	err = parsed.Execute(output, nil)
	switch {
	case output.exceeded:
		return "", errOverrideTooLarge
	case err != nil:
		return "", errors.New("is a Go template that fails; check the arguments of its functions")
	}
	return output.String(), nil
}

var errOverrideTooLarge = fmt.Errorf("has more than %d bytes after its expansion; make it shorter", maxOverrideBytes)

// lookup returns the value of an environment variable; empty if it is not set.
func lookup(env func(string) (string, bool)) func(string) string {
	return func(name string) string {
		value, _ := env(name)
		return value
	}
}

// overrideFunctions are the text functions of sprig, see the documentation of the package.
func overrideFunctions(env func(string) (string, bool)) template.FuncMap {
	functions := sprig.TxtFuncMap()
	delete(functions, "getHostByName")
	functions["env"] = lookup(env)
	functions["expandenv"] = func(text string) string { return os.Expand(text, lookup(env)) }
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
