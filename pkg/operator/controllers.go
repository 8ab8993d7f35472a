// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"slices"
	"strings"
)

// allControllers is the item of Options.Controllers that enables all kinds that no other item
// names.
const allControllers = "*"

// Enabled reports whether Options.Controllers enables the kind of this name. The first item that
// names the kind decides.
func (o *Options) Enabled(name string) bool {
	if len(o.Controllers) == 0 {
		return true
	}
	all := false
	for _, item := range o.Controllers {
		switch strings.TrimSpace(item) {
		case name:
			return true
		case "-" + name:
			return false
		case allControllers:
			all = true
		}
	}
	return all
}

// Select returns the kinds that Options.Controllers enables, in the given order. A kind without
// Build is left out: only its name is valid in Options.Controllers. The error is one line. It names
// the items that match no kind, and the names of all kinds.
func (o *Options) Select(kinds ...Kind) ([]Kind, error) {
	var selected []Kind
	known := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		known = append(known, kind.Name)
		if kind.Build != nil && o.Enabled(kind.Name) {
			selected = append(selected, kind)
		}
	}
	slices.Sort(known)
	var unknown []string
	for _, item := range o.Controllers {
		item = strings.TrimSpace(item)
		if item != allControllers && !slices.Contains(known, strings.TrimPrefix(item, "-")) {
			unknown = append(unknown, fmt.Sprintf("%q", item))
		}
	}
	switch flag := "--controllers=" + strings.Join(o.Controllers, ","); {
	case len(unknown) > 0:
		return nil, fmt.Errorf("%s: %s is the name of no kind; use *, or names with or without a leading dash, of: %s",
			flag, strings.Join(unknown, ", "), strings.Join(known, ", "))
	case len(selected) == 0 && len(kinds) > 0:
		return nil, fmt.Errorf("%s: enables no kind that can run; use * to enable all kinds", flag)
	default:
		return selected, nil
	}
}
