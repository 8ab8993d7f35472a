// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// openAPI is an OpenAPI schema, as a CustomResourceDefinition or a chart has it.
type openAPI map[string]any

// stays marks the schema of an object that no change removes.
const stays = "x-stays"

// property returns the schema of a field; nil for an unknown field.
func (s openAPI) property(name string) openAPI { return schemaOf(mapOf(s["properties"])[name]) }

// names returns the names of the fields, sorted.
func (s openAPI) names() []string { return slices.Sorted(maps.Keys(mapOf(s["properties"]))) }

// number returns a bound of a schema, or another number if the schema does not have it.
func (s openAPI) number(name string, otherwise int64) int64 {
	switch number := s[name].(type) {
	case int64:
		return number
	case float64:
		return int64(number)
	default:
		return otherwise
	}
}

// patterns returns the regular expressions that a string has to match.
func (s openAPI) patterns() []*regexp.Regexp {
	var found []*regexp.Regexp
	if pattern, ok := s["pattern"].(string); ok {
		found = append(found, regexp.MustCompile(pattern))
	}
	rules, _ := s["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		text, _ := mapOf(rule)["rule"].(string)
		if match := matchesRule.FindStringSubmatch(text); match != nil {
			if pattern, err := regexp.Compile(strings.ReplaceAll(match[1], `\\`, `\`)); err == nil {
				found = append(found, pattern)
			}
		}
	}
	return found
}

// matchesRule is the part of a validation rule that has a pattern.
var matchesRule = regexp.MustCompile(`^self\.matches\('([^']*)'\)`)

func mapOf(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

func schemaOf(value any) openAPI { return mapOf(value) }

// texts are the strings from which a generator chooses those that fit a schema.
var texts = []string{
	"changed", "a", "web-2", "17", "16", "1Gi", "20m", "30s", "1h", "14d", "0 3 1 1 *", "@yearly", "UTC", "Europe/Berlin",
	"nginxinc/nginx-unprivileged:1.27-alpine", "redis:7-alpine", "registry.example.com/team/app:v2", "app.example.com", "nginx",
	"https://storage.example.com", "25%", "100m", "128Mi", "/spec/replicas", "/data/message", "values.yaml", "Deployment", "ConfigMap",
	"{{ .Values.level }}", "true", "null", "1", "gr\u00fc\u00dfe \u2603", "two\nlines", " space ", "", "UPPER_case!",
}

// keys are the keys of maps, and quantities the keys of maps of resources.
var (
	keys       = []string{"team", "LEVEL", "example.com/tier", "work_mem"}
	quantities = []string{"cpu", "memory"}
)

// A generator makes random values and changes from schemas, most of them valid.
type generator struct {
	random *rand.Rand
	// names are the names of objects in the namespace.
	names []string
}

// oneIn is true once in so many calls.
func (g *generator) oneIn(n int) bool { return g.random.IntN(n) == 0 }

func choose[T any](g *generator, from []T) T { return from[g.random.IntN(len(from))] }

// change returns a value in which one field is set, changed or removed, and the path of the field.
func (g *generator) change(s openAPI, value any, path string) (changed any, changedPath string) {
	object, isObject := value.(map[string]any)
	if !isObject || len(s.names()) == 0 {
		return g.value(s), path
	}
	name := choose(g, s.names())
	path += "." + name
	fields := maps.Clone(object)
	current, isSet := object[name]
	switch {
	case !isSet:
		fields[name] = g.value(s.property(name))
	case g.oneIn(4) && s.property(name)[stays] != true:
		delete(fields, name)
	default:
		fields[name], path = g.change(s.property(name), current, path)
	}
	return fields, path
}

// value returns a value for a schema. Once in many calls, the value is invalid.
func (g *generator) value(s openAPI) any {
	if g.oneIn(15) {
		return choose(g, []any{int64(-1), int64(1 << 40), "", strings.Repeat("x", 70_000), []any{"x"}, map[string]any{"x": "x"}, true})
	}
	if values, ok := s["enum"].([]any); ok {
		return choose(g, values)
	}
	if s["x-kubernetes-int-or-string"] == true {
		return choose(g, []any{int64(1), int64(2), "25%", "100m", "128Mi", "64Mi"})
	}
	switch s["type"] {
	case "boolean":
		return g.oneIn(2)
	case "integer", "number":
		return g.integer(s)
	case "string":
		return g.text(s)
	case "array":
		items := make([]any, 0, 2)
		for range g.random.IntN(3) {
			items = append(items, g.value(schemaOf(s["items"])))
		}
		return items
	default:
		return g.object(s)
	}
}

// integer returns a number within the bounds of a schema. Numbers of pods stay small.
func (g *generator) integer(s openAPI) int64 {
	const few, many = 3, 1000
	least := s.number("minimum", 0)
	most := s.number("maximum", least+few)
	if most-least > few && most <= many {
		most = least + few
	}
	if g.oneIn(3) {
		return choose(g, []int64{least, most})
	}
	return least + g.random.Int64N(most-least+1)
}

// text returns a string that fits a schema, within the abilities of a generator.
func (g *generator) text(s openAPI) string {
	patterns := s.patterns()
	fits := func(text string) bool {
		length := int64(utf8.RuneCountInString(text))
		return length >= s.number("minLength", 0) && length <= s.number("maxLength", length) &&
			!slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return !p.MatchString(text) })
	}
	all := slices.Concat(texts, g.names)
	if most := s.number("maxLength", 0); most > 0 && most <= 4096 {
		all = append(all, strings.Repeat("x", int(most)))
	}
	if fitting := slices.DeleteFunc(all, func(text string) bool { return !fits(text) }); len(fitting) > 0 {
		return choose(g, fitting)
	}
	return choose(g, texts)
}

// object returns an object with the required fields of a schema and some optional fields.
func (g *generator) object(s openAPI) map[string]any {
	fields := map[string]any{}
	required, _ := s["required"].([]any)
	for _, name := range s.names() {
		if slices.Contains(required, any(name)) || g.oneIn(4) {
			fields[name] = g.value(s.property(name))
		}
	}
	switch entry := schemaOf(s["additionalProperties"]); {
	case entry == nil && s["x-kubernetes-preserve-unknown-fields"] == true:
		fields[choose(g, keys)] = choose(g, []any{"text", int64(3), true, map[string]any{"deep": "text"}})
	case entry != nil:
		names := keys
		if entry["x-kubernetes-int-or-string"] == true {
			names = quantities
		}
		fields[choose(g, names)] = g.value(entry)
	}
	return fields
}

// decodeSchema decodes a JSON schema, with integers as the API server's answers have them.
func decodeSchema(text []byte) (openAPI, error) {
	var decoded openAPI
	err := json.Unmarshal(text, &decoded)
	return decoded, err
}
