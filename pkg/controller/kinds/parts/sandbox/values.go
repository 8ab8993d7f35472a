// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// maxValuesBytes is the limit of values before they are parsed.
const maxValuesBytes = 256 << 10

// ParseValues parses a JSON object for [Data]; nil is an empty one. Errors begin with field, and
// name no value.
func ParseValues(field string, raw *runtime.RawExtension) (map[string]any, error) {
	if raw == nil {
		return nil, nil
	}
	if len(raw.Raw) > maxValuesBytes {
		return nil, fmt.Errorf("%s: has %d bytes, more than the limit of %d: use fewer or shorter values", field, len(raw.Raw), maxValuesBytes)
	}
	var values map[string]any
	if json.Unmarshal(raw.Raw, &values) != nil { // Its error may hold a value.
		return nil, fmt.Errorf("%s: must be an object, nested at most 10000 deep, with numbers of at most 64 bits", field)
	}
	return values, nil
}

// MergePatch returns base with overrides, a JSON merge patch (RFC 7396): objects are merged, all
// other values are replaced, and a null removes a value. The arguments do not change.
func MergePatch(base, overrides map[string]any) map[string]any {
	merged := maps.Clone(base)
	if merged == nil {
		merged = make(map[string]any, len(overrides))
	}
	for key, value := range overrides {
		switch v := value.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			inner, _ := merged[key].(map[string]any)
			merged[key] = MergePatch(inner, v)
		default:
			merged[key] = v
		}
	}
	return merged
}
