// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// undeclared has the paths of status fields that the schema of a CRD does not have.
// Server-side apply refuses such fields, while other writes drop them. The paths are learned
// from the refusals, and kept until the kind restarts. The zero value is ready to use.
type undeclared struct {
	mu    sync.Mutex
	paths []string
}

var (
	// undeclaredField is how the API server names a field of the status that the schema does
	// not have. The error has no other mark.
	undeclaredField = regexp.MustCompile(`\.(status[^\s:]*): field not declared in schema`)
	// listItem is the part of a path that selects an item of a list.
	listItem = regexp.MustCompile(`\[[^\]]*\]`)
)

// strip removes the known fields from an encoded object. It also returns their number.
func (u *undeclared) strip(data []byte) (stripped []byte, known int, _ error) {
	u.mu.Lock()
	paths := slices.Clone(u.paths)
	u.mu.Unlock()
	if len(paths) == 0 {
		return data, 0, nil
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, 0, fmt.Errorf("decode the status: %w", err)
	}
	for _, path := range paths {
		remove(object, strings.Split(path, "."))
	}
	stripped, err := json.Marshal(object)
	return stripped, len(paths), err
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

// learn adds the fields that a refusal names. It reports whether the refusal names fields
// that were not among the known ones.
func (u *undeclared) learn(refusal error, known int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	learned := false
	for _, match := range undeclaredField.FindAllStringSubmatch(refusal.Error(), -1) {
		path := listItem.ReplaceAllString(match[1], "")
		index := slices.Index(u.paths, path)
		if index < 0 {
			u.paths = append(u.paths, path)
		}
		learned = learned || index < 0 || index >= known
	}
	return learned
}
