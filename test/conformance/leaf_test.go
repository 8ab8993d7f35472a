// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// leaf is a scalar value of a manifest: the keys and indexes of its path.
type leaf []any

func (l leaf) String() string {
	var text strings.Builder
	for _, element := range l {
		fmt.Fprintf(&text, "/%v", element)
	}
	return text.String()
}

// pointer returns the leaf as a JSON pointer.
func (l leaf) pointer() string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var pointer strings.Builder
	for _, element := range l {
		pointer.WriteString("/" + escape.Replace(fmt.Sprint(element)))
	}
	return pointer.String()
}

// leavesOf returns the leaves of a manifest in a fixed order, without the leaves of an object's
// identity.
func leavesOf(manifest map[string]any) []leaf {
	var leaves []leaf
	var walk func(value any, path leaf)
	walk = func(value any, path leaf) {
		switch value := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				walk(value[key], append(slices.Clone(path), key))
			}
		case []any:
			for i := range value {
				walk(value[i], append(slices.Clone(path), i))
			}
		case nil:
		default:
			leaves = append(leaves, path)
		}
	}
	walk(manifest, nil)
	return slices.DeleteFunc(leaves, func(l leaf) bool {
		switch l.String() {
		case "/apiVersion", "/kind", "/metadata/name", "/metadata/namespace":
			return true
		default:
			return false
		}
	})
}

// at returns the value of a leaf in an object.
func (l leaf) at(object any) (any, bool) {
	for _, element := range l {
		switch element := element.(type) {
		case string:
			fields, _ := object.(map[string]any)
			value, ok := fields[element]
			if !ok {
				return nil, false
			}
			object = value
		case int:
			items, _ := object.([]any)
			if element >= len(items) {
				return nil, false
			}
			object = items[element]
		}
	}
	return object, true
}

// others are replacements of values for fields that allow only some values.
var others = map[string][]any{
	"TCP": {"UDP"}, "ClusterIP": {"NodePort"}, "Prefix": {"Exact"}, "ReadWriteOnce": {"ReadWriteMany"}, "Never": {"OnFailure"},
	"ServiceAccount": {"User"}, "RollingUpdate": {"Recreate"}, "Exists": {"Equal"}, "NoSchedule": {"NoExecute"},
	"Ignore": {"Fail"}, "Ingress": {"Egress"}, "PersistentVolumeClaim": {"Pod"}, "Utilization": {"AverageValue"},
	"cpu": {"memory"}, "CREATE": {"UPDATE"}, "None": {"NoneOnDryRun"},
}

// changes proposes other values of the same type. The first value that the API server accepts is
// used.
func changes(value any) []any {
	switch value := value.(type) {
	case string:
		proposals := slices.Clone(others[value])
		if _, err := base64.StdEncoding.DecodeString(value); err == nil && value != "" {
			proposals = append(proposals, base64.StdEncoding.EncodeToString([]byte("other")))
		}
		return append(proposals, value+"x", "other.example.com/x", "other", "7", "7Mi", "7%", "192.0.2.7", "192.0.2.0/25", "1 0 1 1 *")
	case int64:
		return []any{value + 1, value - 1, int64(7)}
	case float64:
		return []any{value + 1}
	case bool:
		return []any{!value}
	default:
		return nil
	}
}

// mutation is another client's change of one leaf: to one of the values, or its removal.
type mutation struct {
	leaf   leaf
	values []any
}

func (m mutation) String() string {
	if m.values == nil {
		return "removal of " + m.leaf.String()
	}
	return "change of " + m.leaf.String()
}

// patches returns the JSON patches for the mutation, to be tried in turn.
func (m mutation) patches(t testing.TB) [][]byte {
	t.Helper()
	if m.values == nil {
		return [][]byte{encode(t, []any{values{"op": "remove", "path": m.leaf.pointer()}})}
	}
	patches := make([][]byte, 0, len(m.values))
	for _, value := range m.values {
		patches = append(patches, encode(t, []any{values{"op": "replace", "path": m.leaf.pointer(), "value": value}}))
	}
	return patches
}

func encode(t testing.TB, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// mutationsOf returns a change and a removal of each leaf of the manifest. The API server's object
// leaves out only empty fields.
func mutationsOf(t testing.TB, manifest map[string]any, object *unstructured.Unstructured) []mutation {
	t.Helper()
	var mutations []mutation
	for _, leaf := range leavesOf(manifest) {
		value, ok := leaf.at(object.Object)
		if !ok {
			if asked, _ := leaf.at(manifest); !reflect.ValueOf(asked).IsZero() {
				t.Errorf("%s of %s %s is not in the object", leaf, object.GetKind(), object.GetName())
			}
			continue
		}
		mutations = append(mutations, mutation{leaf: leaf, values: changes(value)}, mutation{leaf: leaf})
	}
	return mutations
}

// lacks returns the path of the first field of the manifest that the object does not have, or "".
// The pristine object shows the API server's form of a value, such as a quantity. Lists may have
// foreign items.
func lacks(manifest, pristine, object any, path string) string {
	switch manifest := manifest.(type) {
	case map[string]any:
		was, _ := pristine.(map[string]any)
		is, ok := object.(map[string]any)
		if !ok {
			return path
		}
		for _, key := range slices.Sorted(maps.Keys(manifest)) {
			if _, kept := was[key]; !kept {
				continue // The field is empty.
			}
			if missing := lacks(manifest[key], was[key], is[key], path+"/"+key); missing != "" {
				return missing
			}
		}
		return ""
	case []any:
		was, _ := pristine.([]any)
		is, _ := object.([]any)
		for i := range manifest {
			if i < len(was) && !slices.ContainsFunc(is, func(item any) bool { return lacks(manifest[i], was[i], item, "") == "" }) {
				return path + "/" + strconv.Itoa(i)
			}
		}
		return ""
	default:
		if !reflect.DeepEqual(pristine, object) {
			return path
		}
		return ""
	}
}
