// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// uses are the paths of values that templates read. A template that reads an object as a whole, for
// example with toYaml, accepts fields that values.yaml does not have.
type uses struct {
	// paths are the paths that the templates of the chart read, as far as they name them.
	paths map[string]bool
	// whole are the paths that end at a value. Templates of sub-charts count as well, because a chart
	// may include them.
	whole map[string]bool
	// typed are the paths whose type the templates check, for example with kindIs. They accept several.
	typed map[string]bool
	// at is the path of the values in the CRD.
	at string
	// widened gets a line for each field without a type.
	widened *[]string
}

// valuesPath matches .Values with the fields after it, and templateComment a comment.
var (
	valuesPath      = regexp.MustCompile(`\.Values((?:\.[A-Za-z_][A-Za-z0-9_]*)*)`)
	templateComment = regexp.MustCompile(`(?s)\{\{-?\s*/\*.*?\*/\s*-?\}\}`)
	typeCheck       = regexp.MustCompile(`\{\{[^}]*\b(?:kindIs|kindOf|typeIs|typeIsLike|typeOf)\b[^}]*\}\}`)
)

// pathsOf adds the paths that templates read. The empty path is .Values itself.
func pathsOf(paths map[string]bool, templates map[string]string) {
	for _, text := range templates {
		for _, match := range valuesPath.FindAllStringSubmatch(templateComment.ReplaceAllString(text, ""), -1) {
			paths[strings.TrimPrefix(match[1], ".")] = true
		}
	}
}

// usesOf returns the values that the templates of a chart read. The values of the chart are at a path of the CRD.
func usesOf(content chart.Content, at string, widened *[]string) uses {
	u := uses{paths: map[string]bool{}, whole: map[string]bool{}, typed: map[string]bool{}, at: at, widened: widened}
	pathsOf(u.paths, content.Templates)
	for name, text := range content.Templates {
		for i, check := range typeCheck.FindAllString(text, -1) {
			pathsOf(u.typed, map[string]string{fmt.Sprint(name, i): check})
		}
	}
	var all func(chart.Content)
	all = func(content chart.Content) {
		pathsOf(u.whole, content.Templates)
		for _, dependency := range content.Dependencies {
			if dependency.Library {
				pathsOf(u.paths, dependency.Templates)
			}
			all(dependency)
		}
	}
	all(content)
	return u
}

// below returns the uses together with the uses of a sub-chart, whose values are at a path.
func (u uses) below(path string, dependency uses) uses {
	for from, to := range map[*map[string]bool]map[string]bool{&u.paths: dependency.paths, &u.whole: dependency.whole} {
		for used := range *from {
			if rest, ok := strings.CutPrefix(used, path+"."); ok {
				to[rest] = true
			}
		}
	}
	if u.whole[""] || u.whole[path] {
		dependency.whole[""] = true
	}
	return dependency
}

// further returns the fields below a path that a template reads, which values.yaml may lack.
func (u uses) further(path string) []string {
	names := map[string]bool{}
	for used := range u.paths {
		if rest, below := strings.CutPrefix(used, prefix(path)); below && rest != "" {
			name, _, _ := strings.Cut(rest, ".")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// prefix returns the beginning of the paths below a path.
func prefix(path string) string {
	if path == "" {
		return ""
	}
	return path + "."
}

// fromDefaults returns the schema of an object of values.yaml. An object has a closed list of
// fields only if the templates read nothing but its fields.
func (u uses) fromDefaults(path string, values object, open bool) object {
	open = open || u.whole[""] || u.whole[path]
	properties := object{}
	for _, name := range u.further(path) {
		properties[name] = freeValue()
	}
	for name, value := range values {
		properties[name] = u.ofDefault(prefix(path)+name, value, open)
	}
	schema := object{"type": "object"}
	if len(properties) > 0 {
		schema["properties"] = properties
	}
	if open || len(properties) == 0 {
		schema[preserve] = true
	}
	return schema
}

// ofDefault returns the schema of a value of values.yaml. A default does not show which types a chart
// accepts: a port may be a number or a name, and a size 1 or 500m. Only an object with fields has a
// type.
func (u uses) ofDefault(path string, value any, open bool) object {
	if fields, ok := value.(object); ok && len(fields) > 0 && !u.typed[path] {
		schema := u.fromDefaults(path, fields, open)
		schema["nullable"] = true
		return schema
	}
	*u.widened = append(*u.widened, fmt.Sprintf("%s.%s: values.yaml has %s; the chart may accept other types", u.at, path, nameOf(value)))
	return freeValue()
}

// nameOf returns a name for the type of a value.
func nameOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case object:
		if len(value) > 0 {
			return "an object"
		}
		return "an empty object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "a boolean"
	default:
		return "a number"
	}
}
