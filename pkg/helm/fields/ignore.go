// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/example/demoapp-controller/pkg/ssa"
)

// IgnoreRule names fields of a release's objects that other clients may change. The engine
// applies these objects with the values that the fields have in the cluster.
type IgnoreRule struct {
	// Kind is the kind of the objects.
	Kind string
	// Name is the name of the object; empty means all of the kind.
	Name string
	// Paths are JSON pointers (RFC 6901). An index counts the items of the chart's list.
	// Fields below a path are ignored, too.
	Paths []string
}

// matches reports whether the rule applies to the object.
func (r IgnoreRule) matches(kind, name string) bool {
	return r.Kind == kind && (r.Name == "" || r.Name == name)
}

// IgnoredPaths returns the paths of the rules that match the object.
func IgnoredPaths(rules []IgnoreRule, kind, name string) []string {
	var paths []string
	for _, rule := range rules {
		if rule.matches(kind, name) {
			paths = append(paths, rule.Paths...)
		}
	}
	return paths
}

// SameRules reports whether two lists of rules are equal.
func SameRules(a, b []IgnoreRule) bool {
	return slices.EqualFunc(a, b, func(a, b IgnoreRule) bool {
		return a.Kind == b.Kind && a.Name == b.Name && slices.Equal(a.Paths, b.Paths)
	})
}

// Ignored finds the ignored fields of an object among paths of managedFields.
type Ignored struct {
	// object is the chart's object, whose lists the indexes count.
	object   map[string]any
	pointers [][]string
}

// NewIgnored returns the ignored fields of the chart's object.
func NewIgnored(rules []IgnoreRule, object *unstructured.Unstructured) Ignored {
	fields := Ignored{object: object.Object}
	for _, path := range IgnoredPaths(rules, object.GetKind(), object.GetName()) {
		fields.pointers = append(fields.pointers, pointerTokens(path))
	}
	return fields
}

// Cover reports whether the field, or a field above it, is ignored.
func (f Ignored) Cover(path fieldpath.Path) bool {
	return slices.ContainsFunc(f.pointers, func(pointer []string) bool {
		return len(pointer) <= len(path) && meet(f.object, pointer, path)
	})
}

// Without returns the fields that can be removed without removing an ignored field.
func (f Ignored) Without(fields *fieldpath.Set) *fieldpath.Set {
	if len(f.pointers) == 0 {
		return fields
	}
	left := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		if !slices.ContainsFunc(f.pointers, func(pointer []string) bool { return meet(f.object, pointer, path) }) {
			left.Insert(path.Copy())
		}
	})
	return left
}

// meet reports whether a JSON pointer and a path of managedFields name the same field of an
// object, or one names a field below the other.
func meet(object any, pointer []string, path fieldpath.Path) bool {
	for i, element := range path {
		if i == len(pointer) {
			return true
		}
		if element.FieldName != nil {
			if *element.FieldName != pointer[i] {
				return false
			}
			fields, _ := object.(map[string]any)
			object = fields[pointer[i]]
			continue
		}
		items, _ := object.([]any)
		index, err := strconv.Atoi(pointer[i])
		if err != nil || index < 0 || index >= len(items) || !isItem(element, items[index], index) {
			return false
		}
		object = items[index]
	}
	return true
}

// isItem reports whether an element of a path of managedFields names an item of a chart's
// list. The element may have keys that the chart leaves to their defaults.
func isItem(element fieldpath.PathElement, item any, index int) bool {
	switch {
	case element.Key != nil:
		fields, _ := item.(map[string]any)
		named := false
		for _, key := range *element.Key {
			is, ok := fields[key.Name]
			if ok && !value.Equals(value.NewValueInterface(is), key.Value) {
				return false
			}
			named = named || ok
		}
		return named
	case element.Value != nil:
		return value.Equals(value.NewValueInterface(item), *element.Value)
	default:
		return element.Index != nil && *element.Index == index
	}
}

// hasField reports whether an object of the chart has a value at a path of
// managedFields.
func hasField(object any, path fieldpath.Path) bool {
	for _, element := range path {
		if element.FieldName != nil {
			fields, _ := object.(map[string]any)
			field, ok := fields[*element.FieldName]
			if !ok {
				return false
			}
			object = field
			continue
		}
		items, _ := object.([]any)
		found := false
		for i, item := range items {
			if found = isItem(element, item, i); found {
				object = item
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// Sparing returns the object for an apply, with the live values of the fields at the paths.
func Sparing(object, live *unstructured.Unstructured, paths []string) *unstructured.Unstructured {
	spared := ssa.Prepare(object)
	for _, path := range paths {
		adopt(spared.Object, live.Object, pointerTokens(path))
	}
	return spared
}

// adopt copies the field at the path from the live object to the desired one, and removes
// the field if the live object has none. It adds no parents to the desired object.
func adopt(desired, live any, path []string) {
	switch parent := desired.(type) {
	case map[string]any:
		liveParent, _ := live.(map[string]any)
		value, exists := liveParent[path[0]]
		child, isDesired := parent[path[0]]
		switch {
		case len(path) > 1 && isDesired:
			adopt(child, value, path[1:])
		case len(path) > 1:
		case exists:
			parent[path[0]] = value
		default:
			delete(parent, path[0])
		}
	case []any:
		index, err := strconv.Atoi(path[0])
		if err != nil || index < 0 || index >= len(parent) {
			return
		}
		value := ssa.SameItem(parent[index], live, index)
		if len(path) > 1 {
			adopt(parent[index], value, path[1:])
		} else if value != nil {
			parent[index] = value
		}
	}
}

func pointerTokens(path string) []string {
	tokens := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens
}
