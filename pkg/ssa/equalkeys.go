// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Server-side apply addresses the items of some lists by keys: env by name, ports by containerPort
// and protocol. It answers 500 to an object with two items of one key. Client-side apply, and with it
// Helm 3, sends such lists, the API server stores them with a warning, and the kubelet uses the last
// variable of a name. So equal keys are resolved before an object is sent, if one item can stand for
// all of them. The lists and keys come from the schemas of the built-in kinds in client-go. For a
// custom resource, only its metadata has such lists: the schema of its CRD refuses equal keys also
// from other clients.

const (
	envVarType    = "io.k8s.api.core.v1.EnvVar"
	hostAliasType = "io.k8s.api.core.v1.HostAlias"
	metadataType  = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
)

// keyFields has a key field of each list with keys in the schemas. Most objects have no two items
// with an equal value of one of them, and need no schema. The schemas take 0.2 s to read.
var keyFields = []string{
	"containerPort", "devicePath", "ip", "mountPath", "name", "port", "topologyKey", "uid",
}

// resolveEqualKeys leaves one item for each key in the lists of an object, and changes the object. It
// returns one line for each change. The errors name the keys of which no item means the same as all
// items with this key. These items stay.
func resolveEqualKeys(object *unstructured.Unstructured) (notes []string, errs []error) {
	if !mayHaveEqualKeys(object.Object) {
		return nil, nil
	}
	known, builtin, err := typeOf(object)
	if err != nil {
		return nil, nil // A kind without a schema, such as a List, has no lists with keys.
	}
	r := &resolver{schema: known.Schema()}
	if builtin {
		r.visit(known.TypeRef(), object.Object, "")
	} else {
		name := metadataType
		r.visit(schema.TypeRef{NamedType: &name}, object.Object["metadata"], "metadata")
	}
	return r.notes, r.errs
}

// mayHaveEqualKeys reports whether a list below the value has two equal texts, or two items with an
// equal value of a key field.
func mayHaveEqualKeys(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			if mayHaveEqualKeys(field) {
				return true
			}
		}
	case []any:
		seen := map[[2]any]bool{}
		repeats := func(field string, value any) bool {
			switch value.(type) {
			case string, int64, float64, bool:
			default:
				return false
			}
			key := [2]any{field, value}
			if seen[key] {
				return true
			}
			seen[key] = true
			return false
		}
		for _, item := range value {
			fields, _ := item.(map[string]any)
			if mayHaveEqualKeys(item) || repeats("", item) ||
				slices.ContainsFunc(keyFields, func(field string) bool { return repeats(field, fields[field]) }) {
				return true
			}
		}
	}
	return false
}

// maxFindings limits the keys of an object with several items, and so the work for them.
const maxFindings = 100

// resolver resolves the equal keys of one object.
type resolver struct {
	schema *schema.Schema
	notes  []string
	errs   []error
}

// visit resolves the lists in a value of a type.
func (r *resolver) visit(of schema.TypeRef, object any, path string) {
	atom, _ := r.schema.Resolve(of)
	fields, isMap := object.(map[string]any)
	if !isMap || atom.Map == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, ok := atom.Map.FindField(name)
		if !ok {
			continue // A map of texts has no lists, and an unknown field has no type.
		}
		at := join(path, name)
		if items, isList := fields[name].([]any); isList {
			fields[name] = r.list(field.Type, items, at)
			continue
		}
		r.visit(field.Type, fields[name], at)
	}
}

// list returns a list with one item for each key.
func (r *resolver) list(of schema.TypeRef, items []any, path string) []any {
	atom, ok := r.schema.Resolve(of)
	if !ok || atom.List == nil {
		return items
	}
	for i, item := range items {
		r.visit(atom.List.ElementType, item, itemPath(path, item, i))
	}
	if atom.List.ElementRelationship != schema.Associative {
		return items
	}
	groups := map[string][]int{}
	for i, item := range items {
		if key, ok := r.key(atom.List, item); ok {
			groups[key] = append(groups[key], i)
		}
	}
	replaced := map[int]any{}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		same := groups[key]
		if len(same) == 1 {
			continue
		}
		if len(r.errs)+len(r.notes) >= maxFindings {
			r.errs = append(r.errs, fmt.Errorf("%s: more than %d keys of the object have several items: remove the others", path, maxFindings))
			break
		}
		one, note, err := single(items, same, atom.List.ElementType)
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %d items have the key %.100q: %w", path, len(same), key, err))
			continue
		}
		r.notes = append(r.notes, fmt.Sprintf("%s: %d items have the key %.100q, %s", path, len(same), key, note))
		for _, i := range same[:len(same)-1] {
			replaced[i] = nil
		}
		replaced[same[len(same)-1]] = one
	}
	if len(replaced) == 0 {
		return items
	}
	var kept []any
	for i, item := range items {
		one, changed := replaced[i]
		switch {
		case !changed:
			kept = append(kept, item)
		case one != nil:
			kept = append(kept, one)
		}
	}
	return kept
}

// key returns the key of an item as a text: the values of the key fields, or the item itself in a
// list of texts. An item without a key field has no key.
func (r *resolver) key(list *schema.List, item any) (string, bool) {
	if len(list.Keys) == 0 {
		text, ok := item.(string)
		return text, ok
	}
	fields, ok := item.(map[string]any)
	if !ok {
		return "", false
	}
	var parts []string
	for _, name := range list.Keys {
		part := fields[name]
		if part == nil {
			part = r.defaultOf(list.ElementType, name)
		}
		if part == nil {
			return "", false
		}
		parts = append(parts, fmt.Sprint(part))
	}
	return strings.Join(parts, "/"), true
}

func (r *resolver) defaultOf(of schema.TypeRef, name string) any {
	atom, ok := r.schema.Resolve(of)
	if !ok || atom.Map == nil {
		return nil
	}
	field, _ := atom.Map.FindField(name)
	return field.Default
}

// join returns the path of a field.
func join(path, field string) string { return strings.TrimPrefix(path+"."+field, ".") }

// itemPath returns the path of an item of a list, by its name or its index.
func itemPath(path string, item any, index int) string {
	fields, _ := item.(map[string]any)
	if name, ok := fields["name"].(string); ok && name != "" {
		return fmt.Sprintf("%s[%.63s]", path, name)
	}
	return fmt.Sprintf("%s[%d]", path, index)
}

// single returns the item that stands for several items with one key, and says which item it is. It
// returns an error if no item means the same as all of them.
func single(items []any, same []int, of schema.TypeRef) (one any, note string, _ error) {
	switch named(of) {
	case envVarType:
		return lastVariable(items, same)
	case hostAliasType:
		return joinedHosts(items, same)
	}
	one = items[same[0]]
	for _, i := range same[1:] {
		switch next := items[i]; {
		case contains(next, one):
			one = next
		case !contains(one, next):
			return nil, "", fmt.Errorf("they differ in %s, and server-side apply keeps one item for each key: remove one of them",
				strings.Join(differingFields(one, next), ", "))
		}
	}
	return one, "and count once", nil
}

func named(of schema.TypeRef) string {
	if of.NamedType == nil {
		return ""
	}
	return *of.NamedType
}

// maxSpan limits the variables between two of one name, which lastVariable reads for each name. A
// container with more variables is no container that people wrote.
const maxSpan = 1000

// lastVariable returns the last one of several environment variables of one name, as the kubelet
// does. The kubelet expands $(NAME) to the value so far, and keeps the value so far if an optional
// reference has no target. In both cases, an earlier variable has a meaning of its own.
// See makeEnvironmentVariables in k8s.io/kubernetes/pkg/kubelet/kubelet_pods.go.
func lastVariable(items []any, same []int) (any, string, error) {
	first, end := same[0], same[len(same)-1]
	if end-first > maxSpan {
		return nil, "", fmt.Errorf("they are more than %d variables apart: remove one of them", maxSpan)
	}
	last, _ := items[end].(map[string]any)
	reference := fmt.Sprintf("$(%v)", last["name"])
	for _, item := range items[first+1 : end+1] {
		fields, _ := item.(map[string]any)
		text, _ := fields["value"].(string)
		if strings.Contains(strings.ReplaceAll(text, "$$", ""), reference) {
			return nil, "", fmt.Errorf("the value of %v refers to %s before the last of them, and server-side apply keeps one item for each key: "+
				"give them different names", fields["name"], reference)
		}
	}
	sources, _ := last["valueFrom"].(map[string]any)
	for _, source := range sources {
		if fields, _ := source.(map[string]any); fields["optional"] == true {
			return nil, "", errors.New("the last of them is optional, so an earlier one may count, and server-side apply keeps one item for each key: " +
				"give them different names")
		}
	}
	return items[end], "and only the last one counts", nil
}

// joinedHosts returns an item with all host names of several items with one address, since the
// kubelet writes them all.
func joinedHosts(items []any, same []int) (any, string, error) {
	last, _ := items[same[len(same)-1]].(map[string]any)
	joined := maps.Clone(last)
	var hosts []any
	known := map[string]bool{}
	for _, i := range same {
		fields, _ := items[i].(map[string]any)
		names, _ := fields["hostnames"].([]any)
		for _, name := range names {
			if text, ok := name.(string); ok && known[text] {
				continue
			} else if ok {
				known[text] = true
			}
			hosts = append(hosts, name) // The API server refuses a name that is no text.
		}
	}
	joined["hostnames"] = hosts
	return joined, "and their host names count together", nil
}

// contains reports whether an item has all fields of another item.
func contains(item, other any) bool {
	fields, ok := item.(map[string]any)
	others, ok2 := other.(map[string]any)
	if !ok || !ok2 {
		return equal(item, other)
	}
	for name, field := range others {
		if own, ok := fields[name]; field != nil && (!ok || !equal(own, field)) {
			return false
		}
	}
	return true
}

// differingFields returns the fields in which two items differ.
func differingFields(a, b any) []string {
	first, _ := a.(map[string]any)
	second, _ := b.(map[string]any)
	names := map[string]bool{}
	for _, item := range []map[string]any{first, second} {
		for name := range item {
			if !equal(first[name], second[name]) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func equal(a, b any) bool {
	return value.Equals(value.NewValueInterface(a), value.NewValueInterface(b))
}
