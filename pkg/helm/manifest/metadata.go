// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	pathsegment "k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// textMaps are the fields of metadata whose values are texts. The accessors of unstructured
// objects return none of the values if one is not a text, and then overwrite all of them.
var textMaps = []string{"labels", "annotations"}

// CheckMetadata returns the errors that the API server would return for the metadata of a rendered
// object, and of the items of a List. The engine itself reads these fields before it sends the
// object, so it cannot rely on the API server's validation.
func CheckMetadata(object *unstructured.Unstructured) []error {
	if list, ok := items(object.Object); ok {
		var errs []error
		for i, item := range list {
			fields, ok := item.(map[string]any)
			if !ok {
				errs = append(errs, fmt.Errorf("%s: %w", Title(object), wrongType(fmt.Sprintf("items[%d]", i), "an object", item)))
				continue
			}
			errs = append(errs, CheckMetadata(&unstructured.Unstructured{Object: fields})...)
		}
		return errs
	}
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Title(object), err))
		}
	}
	if object.GetKind() == "List" {
		add(wrongType("items", "a list", object.Object["items"]))
		return errs
	}
	add(CheckType(object))
	metadata, ok := object.Object["metadata"].(map[string]any)
	if value := object.Object["metadata"]; !ok && value != nil {
		add(wrongType("metadata", "an object", value))
		return errs
	}
	add(checkName(metadata["name"]))
	if value := metadata["namespace"]; value != nil && !isText(value) {
		add(wrongType("metadata.namespace", "a string", value))
	}
	for _, name := range textMaps {
		path := "metadata." + name
		texts, ok := metadata[name].(map[string]any)
		if value := metadata[name]; !ok && value != nil {
			add(wrongType(path, "an object", value))
		}
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			if value := texts[key]; value != nil && !isText(value) {
				add(wrongType(keyPath(path, key), "a string", value))
			}
		}
	}
	add(checkReferences(metadata["ownerReferences"]))
	return errs
}

// CheckType fails if an object has no apiVersion or kind.
func CheckType(object *unstructured.Unstructured) error {
	for _, name := range []string{"apiVersion", "kind"} {
		switch value := object.Object[name]; {
		case value == nil || value == "":
			return fmt.Errorf("%s is missing", name)
		case !isText(value):
			return wrongType(name, "a string", value)
		}
	}
	return nil
}

// checkName fails if a name cannot be part of the path of a request.
func checkName(value any) error {
	name, ok := value.(string)
	switch {
	case value == nil || value == "":
		return errors.New("metadata.name is missing: set it, metadata.generateName is not supported")
	case !ok:
		return wrongType("metadata.name", "a string", value)
	case !IsName(name):
		return fmt.Errorf("metadata.name %.63q is not a valid name: set another one", name)
	default:
		return nil
	}
}

// IsName reports whether the name can be part of the path of a request.
func IsName(name string) bool {
	return name != "" && len(name) <= 253 && len(pathsegment.IsPathSegmentName(name)) == 0
}

// checkReferences fails if owner references have fields that the engine could not keep when
// it adds the release's owner.
func checkReferences(value any) error {
	const path = "metadata.ownerReferences"
	references, ok := value.([]any)
	if !ok && value != nil {
		return wrongType(path, "a list", value)
	}
	for i, reference := range references {
		path := fmt.Sprintf("%s[%d]", path, i)
		fields, ok := reference.(map[string]any)
		if !ok {
			return wrongType(path, "an object", reference)
		}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			switch value := fields[key]; key {
			case "apiVersion", "kind", "name", "uid":
				if !isText(value) {
					return wrongType(keyPath(path, key), "a string", value)
				}
			case "controller", "blockOwnerDeletion":
				if _, ok := value.(bool); !ok && value != nil {
					return wrongType(keyPath(path, key), "a boolean", value)
				}
			default:
				return fmt.Errorf("%s: unknown field", keyPath(path, key))
			}
		}
	}
	return nil
}

// Title names an object in a message, before it is known to have a kind and a name.
func Title(object *unstructured.Unstructured) string {
	kind, name := object.GetKind(), object.GetName()
	switch {
	case kind == "" && name == "":
		return "object"
	case kind == "":
		return fmt.Sprintf("object %.63q", name)
	case name == "":
		return fmt.Sprintf("%.63s", kind)
	default:
		return fmt.Sprintf("%.63s %.63q", kind, name)
	}
}

// wrongType returns the error about a value of another type. It does not have the value,
// which may be secret.
func wrongType(path, want string, value any) error {
	remedy := ""
	if want == "a string" && isScalar(value) {
		remedy = ": quote the value in the template"
	}
	return fmt.Errorf("%s: must be %s, got %s%s", path, want, typeOf(value), remedy)
}

// typeOf returns the type of a decoded JSON value.
func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	default:
		return "number"
	}
}

func isText(value any) bool {
	_, ok := value.(string)
	return ok
}

func isScalar(value any) bool {
	kind := typeOf(value)
	return kind == "boolean" || kind == "number"
}

// plainKey matches a key that can follow a dot in a path.
var plainKey = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)

// keyPath returns the path of a key in a message.
func keyPath(path, key string) string {
	if !plainKey.MatchString(key) || len(key) > 63 {
		return fmt.Sprintf("%s[%.63q]", path, key)
	}
	return path + "." + key
}

// ReadTexts turns the labels and annotations of an object in a recorded manifest into texts, as
// Helm reads the annotations of hooks, and reports whether any value was not a text. So no value
// hides the remaining ones, such as a resource policy. A rendered manifest with such values is
// refused, but records of earlier versions have them.
func ReadTexts(object *unstructured.Unstructured) bool {
	changed := false
	metadata, _ := object.Object["metadata"].(map[string]any)
	for _, name := range textMaps {
		texts, _ := metadata[name].(map[string]any)
		for key, value := range texts {
			if value == nil || isText(value) {
				continue
			}
			if text, err := json.Marshal(value); err == nil {
				texts[key], changed = string(text), true
			}
		}
	}
	return changed
}
