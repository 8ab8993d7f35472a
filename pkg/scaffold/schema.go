// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// object is an object of JSON or of a schema.
type object = map[string]any

const (
	preserve    = "x-kubernetes-preserve-unknown-fields"
	intOrString = "x-kubernetes-int-or-string"
)

// maxDepth bounds the depth of a schema. Deeper values are not typed.
const maxDepth = 24

// freeValue is the schema of any value.
func freeValue() object { return object{preserve: true, "nullable": true} }

// freeObject is the schema of an object with any fields.
func freeObject() object { return object{"type": "object", preserve: true} }

// converter turns a JSON schema into the structural schema of a CRD. A rule that a CRD cannot
// express is widened: the CRD accepts more, and the operator still validates by the chart's schema.
type converter struct {
	root object
	// widened are the paths of widened rules with the reasons.
	widened []string
}

// parseSchema parses values.schema.json.
func parseSchema(text []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var root object
	if err := decoder.Decode(&root); err != nil {
		return nil, err
	}
	return root, nil
}

func (c *converter) widen(path, format string, args ...any) {
	line := path + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(c.widened, line) {
		c.widened = append(c.widened, line)
	}
}

// annotations are keywords without validation.
var annotations = map[string]bool{
	"$schema": true, "$id": true, "$comment": true, "$defs": true, "definitions": true, "title": true, "description": true, "default": true,
	"examples": true, "example": true, "deprecated": true, "readOnly": true, "writeOnly": true, "$anchor": true, "id": true,
}

// handled are the keywords that a structural schema has, or that convert replaces.
var handled = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true, "items": true, "enum": true, "const": true, "nullable": true,
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true, "minLength": true, "maxLength": true,
	"pattern": true, "format": true, "minItems": true, "maxItems": true, "minProperties": true, "maxProperties": true,
}

// convert returns the structural schema of a JSON schema. defaults are the chart's values at the
// path, nil without any: a field with a default is not required, because the values of the object
// are merged over the chart's values. references are the references on the way to the schema.
func (c *converter) convert(path string, schema, defaults any, references []string) object {
	if len(references) > 64 || strings.Count(path, ".") > maxDepth {
		c.widen(path, "the schema is too deep")
		return freeValue()
	}
	source, isObject := schema.(object)
	if !isObject {
		if schema == false {
			c.widen(path, "no value is allowed")
		}
		return freeValue()
	}
	source = maps.Clone(source)
	if reference, ok := source["$ref"].(string); ok {
		target, err := c.resolve(reference)
		if err == nil && slices.Contains(references, reference) {
			err = fmt.Errorf("the reference %s is recursive", reference)
		}
		if err != nil {
			c.widen(path, "%v", err)
			return freeValue()
		}
		delete(source, "$ref")
		if draft, _ := c.root["$schema"].(string); strings.Contains(draft, "/draft-0") {
			source = object{} // Drafts up to 7 ignore all keywords next to a reference.
		}
		references = append(slices.Clone(references), reference)
		return c.convert(path, c.join(path, target, source), defaults, references)
	}
	if members, ok := source["allOf"].([]any); ok {
		delete(source, "allOf")
		joined := source
		for _, member := range members {
			if part, ok := member.(object); ok {
				joined = c.join(path, c.inlined(path, part, references), joined)
			}
		}
		return c.convert(path, joined, defaults, references)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if simple := alternatives(source[name]); simple != nil {
			delete(source, name)
			maps.Copy(source, simple)
		}
	}
	for _, keyword := range slices.Sorted(maps.Keys(source)) {
		if (keyword == "then" || keyword == "else") && source["if"] != nil {
			continue // The line of "if" is enough.
		}
		if !annotations[keyword] && !handled[keyword] && !strings.HasPrefix(keyword, "x-") && (keyword != "uniqueItems" || source[keyword] == true) {
			c.widen(path, "a CRD has no %s", keyword)
		}
	}
	return c.typed(path, source, defaults, references)
}

// typed converts a schema without references.
func (c *converter) typed(path string, source object, defaults any, references []string) object {
	result := object{}
	if text, ok := source["description"].(string); ok {
		result["description"] = text
	} else if text, ok := source["title"].(string); ok {
		result["description"] = text
	}
	kind, nullable := c.typeOf(path, source)
	if nullable || source["nullable"] == true {
		result["nullable"] = true
	}
	switch kind {
	case "":
		result[preserve], result["nullable"] = true, true
	case intOrString:
		result[intOrString] = true
	default:
		result["type"] = kind
	}
	c.values(path, kind, source, result)
	switch kind {
	case "object":
		c.object(path, source, defaults, references, result)
	case "array":
		c.array(path, source, references, result)
	}
	return result
}

// typeOf returns the type, empty for several or an unknown one, and whether null is allowed.
func (c *converter) typeOf(path string, source object) (kind string, nullable bool) {
	var types []string
	switch declared := source["type"].(type) {
	case string:
		types = []string{declared}
	case []any:
		for _, item := range declared {
			types = append(types, fmt.Sprint(item))
		}
	}
	if before := len(types); before > 0 {
		types = slices.DeleteFunc(types, func(name string) bool { return name == "null" })
		nullable = len(types) < before
		slices.Sort(types)
	} else {
		switch {
		case source["properties"] != nil:
			types = []string{"object"}
		case source["items"] != nil:
			types = []string{"array"}
		default:
			types = typeOfAll(source["anyOf"], source["oneOf"])
		}
	}
	switch {
	case len(types) == 1:
		return types[0], nullable
	case slices.Equal(types, []string{"integer", "string"}):
		return intOrString, nullable
	case len(types) > 1:
		c.widen(path, "a CRD has no value of the types %s", strings.Join(types, ", "))
	}
	return "", nullable
}

// typeOfAll returns the type that all members of a list of alternatives have; none if they differ.
func typeOfAll(lists ...any) []string {
	for _, list := range lists {
		members, _ := list.([]any)
		var types []string
		for _, member := range members {
			schema, _ := member.(object)
			kind, _ := schema["type"].(string)
			types = append(types, kind)
		}
		if types = slices.Compact(types); len(types) == 1 && types[0] != "" {
			return types
		}
	}
	return nil
}

// formats are the formats that CRDs support.
var formats = []string{
	"int32", "int64", "float", "double", "byte", "date", "date-time", "duration", "password", "uuid", "uuid3", "uuid4", "uuid5", "ipv4", "ipv6",
	"cidr", "uri", "email", "hostname", "mac", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor",
}

// keywordsOf are the rules of values by type. Other types ignore them in JSON schema, too.
var keywordsOf = map[string][]string{
	"string": {"minLength", "maxLength"}, "array": {"minItems", "maxItems"}, "object": {"maxProperties"},
	"integer": {"minimum", "maximum", "multipleOf"}, "number": {"minimum", "maximum", "multipleOf"},
}

// values copies the rules that do not depend on fields.
func (c *converter) values(path, kind string, source, result object) {
	if constant, ok := source["const"]; ok {
		result["enum"] = []any{constant}
	}
	if list, ok := source["enum"].([]any); ok {
		kept := slices.DeleteFunc(slices.Clone(list), func(value any) bool { return value == nil })
		if len(kept) < len(list) {
			result["nullable"] = true
			kept = append(kept, nil)
		}
		result["enum"] = kept
	}
	for _, keyword := range keywordsOf[kind] {
		if value, ok := source[keyword]; ok {
			result[keyword] = value
		}
	}
	if kind == "integer" || kind == "number" {
		for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
			switch value := source[exclusive].(type) {
			case bool:
				result[exclusive] = value
			case json.Number:
				if source[bound] != nil {
					c.widen(path, "a CRD has no %s beside %s", exclusive, bound)
					continue
				}
				result[bound], result[exclusive] = value, true
			}
		}
	}
	if format, ok := source["format"].(string); ok && kind != "" && kind != intOrString {
		if slices.Contains(formats, format) {
			result["format"] = format
		} else {
			c.widen(path, "a CRD has no format %s", format)
		}
	}
	if pattern, ok := source["pattern"].(string); ok && kind == "string" {
		if _, err := regexp.Compile(pattern); err != nil {
			c.widen(path, "the pattern is no regular expression of Go")
		} else {
			result["pattern"] = pattern
		}
	}
	for _, keyword := range []string{"minLength", "pattern", "minimum", "maximum"} {
		if source[keyword] != nil && (kind == "" || kind == intOrString) {
			c.widen(path, "a CRD has no %s without a single type", keyword)
		}
	}
}

func (c *converter) object(path string, source object, defaults any, references []string, result object) {
	known, _ := defaults.(object)
	properties := object{}
	if declared, ok := source["properties"].(object); ok {
		for _, name := range slices.Sorted(maps.Keys(declared)) {
			property := c.convert(path+"."+name, declared[name], known[name], references)
			if _, hasDefault := known[name]; hasDefault && property["enum"] == nil {
				property["nullable"] = true // As with Helm, null removes the default.
			}
			properties[name] = property
		}
	}
	if len(properties) > 0 {
		result["properties"] = properties
	}
	var required []any
	list, _ := source["required"].([]any)
	for _, name := range list {
		text, isText := name.(string)
		if _, hasDefault := known[text]; isText && !hasDefault {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		result["required"] = required
	}
	if least, ok := source["minProperties"]; ok {
		if len(known) == 0 {
			result["minProperties"] = least
		} else {
			c.widen(path, "minProperties counts the chart's defaults, too")
		}
	}
	patterns := source["patternProperties"] != nil
	switch additional := source["additionalProperties"].(type) {
	case object:
		if len(properties) == 0 && !patterns {
			result["additionalProperties"] = c.convert(path+".*", additional, nil, references)
			return
		}
		c.widen(path, "a CRD has no additionalProperties beside properties")
	case bool:
		if !additional && !patterns {
			return // The API server knows no further fields.
		}
	}
	result[preserve] = true
}

func (c *converter) array(path string, source object, references []string, result object) {
	switch items := source["items"].(type) {
	case object:
		result["items"] = c.convert(path+"[]", items, nil, references)
	case []any:
		c.widen(path, "a CRD has no schema for each item of a list")
		result["items"] = freeValue()
	default:
		result["items"] = freeValue()
	}
}

// alternatives returns a schema without alternatives for a type or null, and for integer or string;
// nil for any other alternatives.
func alternatives(list any) object {
	members, _ := list.([]any)
	if len(members) != 2 {
		return nil
	}
	first, ok1 := members[0].(object)
	second, ok2 := members[1].(object)
	if !ok1 || !ok2 {
		return nil
	}
	null := object{"type": "null"}
	switch {
	case reflect.DeepEqual(second, null):
	case reflect.DeepEqual(first, null):
		first = second
	default:
		if len(first) == 1 && len(second) == 1 && first["type"] != nil && second["type"] != nil {
			return object{"type": []any{first["type"], second["type"]}}
		}
		return nil
	}
	simple := maps.Clone(first)
	simple["nullable"] = true
	return simple
}

// resolve returns the schema of a reference within the file.
func (c *converter) resolve(reference string) (object, error) {
	pointer, local := strings.CutPrefix(reference, "#")
	if !local {
		return nil, fmt.Errorf("the reference %s leads out of the file", reference)
	}
	var at any = c.root
	for _, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		fields, _ := at.(object)
		if at = fields[token]; at == nil {
			return nil, fmt.Errorf("the reference %s leads to nothing", reference)
		}
	}
	target, ok := at.(object)
	if !ok {
		return nil, fmt.Errorf("the reference %s leads to no object", reference)
	}
	return target, nil
}

// inlined returns a member of allOf without its reference.
func (c *converter) inlined(path string, member object, references []string) object {
	reference, ok := member["$ref"].(string)
	if !ok {
		return member
	}
	target, err := c.resolve(reference)
	if err != nil || slices.Contains(references, reference) {
		return member // convert reports it.
	}
	rest := maps.Clone(member)
	delete(rest, "$ref")
	return c.join(path, target, rest)
}

// join returns a schema with the rules of both. If the two have different values for a rule, b
// wins.
func (c *converter) join(path string, a, b object) object {
	joined := maps.Clone(a)
	for _, keyword := range slices.Sorted(maps.Keys(b)) {
		mine, both := joined[keyword]
		switch {
		case !both || annotations[keyword] || reflect.DeepEqual(mine, b[keyword]):
			joined[keyword] = b[keyword]
		case keyword == "required":
			first, _ := mine.([]any)
			second, _ := b[keyword].([]any)
			joined[keyword] = append(slices.Clone(first), second...)
		case keyword == "properties":
			joined[keyword] = c.joinProperties(path, mine, b[keyword])
		default:
			c.widen(path, "allOf has two rules %s", keyword)
			joined[keyword] = b[keyword]
		}
	}
	return joined
}

func (c *converter) joinProperties(path string, a, b any) object {
	first, _ := a.(object)
	second, _ := b.(object)
	joined := maps.Clone(first)
	if joined == nil {
		joined = object{}
	}
	for name, schema := range second {
		mine, ok1 := joined[name].(object)
		theirs, ok2 := schema.(object)
		if ok1 && ok2 {
			joined[name] = c.join(path+"."+name, mine, theirs)
			continue
		}
		joined[name] = schema
	}
	return joined
}
