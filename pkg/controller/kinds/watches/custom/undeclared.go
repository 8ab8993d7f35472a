// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// undeclared has the paths of status fields that the schema of a CRD does not have.
// Server-side apply refuses such fields, while other writes drop them. The paths of fields that a
// merge patch drops are learned, and kept until the kind restarts. The zero value is ready to use.
type undeclared struct {
	mu    sync.Mutex
	paths []string
}

// strip removes the known fields from an encoded object.
func (u *undeclared) strip(data []byte) ([]byte, error) {
	u.mu.Lock()
	paths := slices.Clone(u.paths)
	u.mu.Unlock()
	if len(paths) == 0 {
		return data, nil
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("decode the status: %w", err)
	}
	for _, path := range paths {
		remove(object, strings.Split(path, "."))
	}
	return json.Marshal(object)
}

// remove removes a field, below lists from all items.
func remove(value any, path []string) {
	switch value := value.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(value, path[0])
			return
		}
		remove(value[path[0]], path[1:])
	case []any:
		for _, item := range value {
			remove(item, path)
		}
	}
}

// learn adds the fields of the status that were sent, and that the API server dropped. Both objects are
// encoded. It reports whether there were any.
func (u *undeclared) learn(sent, kept []byte) bool {
	var before, after struct {
		Status any `json:"status"`
	}
	if json.Unmarshal(sent, &before) != nil || json.Unmarshal(kept, &after) != nil {
		return false // The refusal has another cause.
	}
	found := dropped("status", before.Status, after.Status)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.paths = slices.Compact(slices.Sorted(slices.Values(append(u.paths, found...))))
	return len(found) > 0
}

// dropped returns the paths of the fields that are absent afterwards, without the indices of lists.
func dropped(path string, before, after any) []string {
	if after == nil && before != nil {
		return []string{path}
	}
	var paths []string
	switch before := before.(type) {
	case map[string]any:
		after, _ := after.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(before)) {
			paths = append(paths, dropped(path+"."+name, before[name], after[name])...)
		}
	case []any:
		after, _ := after.([]any)
		for i := range min(len(before), len(after)) {
			paths = append(paths, dropped(path, before[i], after[i])...)
		}
	}
	return paths
}
