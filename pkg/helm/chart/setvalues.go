// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"
)

const (
	// maxAssignments bounds the bytes of all assignments together.
	maxAssignments = 1 << 20
	// maxListNesting bounds the list indexes in one path.
	maxListNesting = 30
	// maxListItems bounds the sum of all list indexes. Helm fills a list up to its index, so
	// "a[65536][65536]=x" makes two lists of 65,537 items.
	maxListItems = 1 << 20
)

// SetValues returns a copy of values with assignments, as "helm install --set path=value"
// makes them: a path such as "ingress.hosts[0].name" leads to a value, "null" removes a default of
// the chart, and in both path and value, commas separate further assignments unless a
// backslash precedes them. The keys of assignments are paths. Assignments are applied in the order
// of their paths.
//
// replaced has the paths of assignments that replace existing values, in order.
//
// Assignments are limited to 1 MiB, and their list indexes to 65,536 each and 1,048,576 in all.
// Errors name the path of an assignment and never its value. SetValues(nil, assignments) reports
// assignments that fail for any values. The remaining assignments fail only for some values, as
// "a.b=1" does if "a" is a string.
func SetValues(values map[string]any, assignments map[string]string) (set map[string]any, replaced []string, err error) {
	set, _ = copyValue(values).(map[string]any)
	return setAll(values, set, assignments, strvals.ParseInto)
}

// SetTexts is like SetValues, but reads assignments as operator-sdk's helm-operator does, and "helm
// install --set-string": each value is a text, also "true", "3" and "null". The assignments are
// merged over values as values of their own, so that they replace a list as a whole.
func SetTexts(values map[string]any, assignments map[string]string) (set map[string]any, replaced []string, err error) {
	texts, _, err := setAll(nil, map[string]any{}, assignments, strvals.ParseIntoString)
	if err != nil {
		return nil, nil, err
	}
	set, _ = copyValue(values).(map[string]any)
	mergeOver(set, texts)
	return set, replacedBy(values, set, assignments, strvals.ParseIntoString), nil
}

// mergeOver merges values into others, which it changes.
func mergeOver(others, values map[string]any) {
	for key, value := range values {
		inner, isMap := value.(map[string]any)
		below, wasMap := others[key].(map[string]any)
		if isMap && wasMap {
			mergeOver(below, inner)
		} else {
			others[key] = value
		}
	}
}

// parser reads "path=value" into values.
type parser func(assignment string, values map[string]any) error

// setAll applies all assignments to set, which begins as a copy of values.
func setAll(
	values, set map[string]any, assignments map[string]string, parse parser,
) (after map[string]any, replaced []string, err error) {
	paths := slices.Sorted(maps.Keys(assignments))
	size, items := 0, 0
	for _, path := range paths {
		size += len(path) + len(assignments[path])
		if size > maxAssignments {
			return nil, nil, fmt.Errorf("assignments exceed %d bytes", maxAssignments)
		}
		sum, err := listItems(path + "=" + assignments[path])
		if items += sum; err == nil && items > maxListItems {
			err = fmt.Errorf("list indexes exceed %d in all", maxListItems)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("set %q: %w", path, err)
		}
	}
	for _, path := range paths {
		if err := assign(set, path, assignments[path], parse); err != nil {
			return nil, nil, fmt.Errorf("set %q: %w", path, err)
		}
	}
	return set, replacedBy(values, set, assignments, parse), nil
}

// replacedBy returns the paths of the assignments that replace existing values.
func replacedBy(values, set map[string]any, assignments map[string]string, parse parser) (replaced []string) {
	for _, path := range slices.Sorted(maps.Keys(assignments)) {
		alone := map[string]any{}
		if err := assign(alone, path, assignments[path], parse); err == nil && replaces(values, set, alone) {
			replaced = append(replaced, path)
		}
	}
	return replaced
}

// assign applies one assignment. After an error, values has a part of it.
func assign(values map[string]any, path, value string, parse parser) error {
	if path == "" {
		return errors.New("the path is empty")
	}
	if parse(path+"="+value, values) == nil {
		return nil
	}
	// The error can have a part of the value. Without the value, the error of the path alone names the reason.
	if err := parse(path+"=", map[string]any{}); err != nil {
		return err
	}
	if parse(path+"="+value, map[string]any{}) == nil {
		return errors.New("the path leads through a value that is not a map or a list")
	}
	return errors.New("the value is malformed: escape commas and a leading brace with a backslash, or end the list with }")
}

// replaces reports whether a value of alone is in before with another value than in after.
// Lists are compared as a whole.
func replaces(before, after, alone map[string]any) bool {
	for key, value := range alone {
		old, found := before[key]
		if !found {
			continue
		}
		inner, isMap := value.(map[string]any)
		oldMap, wasMap := old.(map[string]any)
		newMap, _ := after[key].(map[string]any)
		if isMap && wasMap {
			if replaces(oldMap, newMap, inner) {
				return true
			}
		} else if !SameValue(old, after[key]) {
			return true
		}
	}
	return false
}

// SameValue reports whether two values are the same in JSON, so that 1 equals 1.0.
func SameValue(a, b any) bool {
	first, err := json.Marshal(a)
	second, otherErr := json.Marshal(b)
	return err == nil && otherErr == nil && bytes.Equal(first, second)
}

// copyValue returns a copy of a value. Scalars are shared.
func copyValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value))
		for key, item := range value {
			copied[key] = copyValue(item)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, item := range value {
			copied[i] = copyValue(item)
		}
		return copied
	default:
		return value
	}
}

// listItems returns the number of list items that an assignment makes at most. It reads paths
// as Helm's parser does, and skips values.
func listItems(assignment string) (items int, err error) {
	nesting := 0
	for rest := assignment; rest != ""; {
		var stop byte
		if _, rest, stop = untilAny(rest, "[=,"); stop == '[' {
			var index string
			index, rest, _ = untilAny(rest, "]")
			number, err := strconv.Atoi(index)
			if err != nil || number < 0 || number > strvals.MaxIndex {
				return 0, fmt.Errorf("a list index is not a number from 0 to %d", strvals.MaxIndex)
			}
			if nesting++; nesting > maxListNesting {
				return 0, fmt.Errorf("a path has more than %d list indexes", maxListNesting)
			}
			items += number + 1
			continue
		}
		nesting = 0
		if stop == '=' {
			if strings.HasPrefix(rest, "{") {
				_, rest, _ = untilAny(rest, "}")
				rest = strings.TrimPrefix(rest, ",")
			} else {
				_, rest, _ = untilAny(rest, ",")
			}
		}
	}
	return items, nil
}

// untilAny cuts text at the first of the stops that no backslash precedes. stop is 0 without such a
// stop.
func untilAny(text, stops string) (before, after string, stop byte) {
	for i := 0; i < len(text); i++ {
		switch {
		case strings.IndexByte(stops, text[i]) >= 0:
			return text[:i], text[i+1:], text[i]
		case text[i] == '\\':
			i++
		}
	}
	return text, "", 0
}
