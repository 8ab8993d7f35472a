// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// IgnoreRule names fields of a release's objects that others may change. The
// engine applies such an object with the values that these fields have.
type IgnoreRule struct {
	// Kind is the kind of the objects.
	Kind string
	// Name is the name of the object; empty means all of the kind.
	Name string
	// Paths are JSON pointers (RFC 6901). An index into a list is one into that of
	// the chart. What lies below a path is ignored, too.
	Paths []string
}

// matches reports whether the rule is about the object.
func (r IgnoreRule) matches(ref ObjectReference) bool {
	return r.Kind == ref.Kind && (r.Name == "" || r.Name == ref.Name)
}

// IgnoredPaths are the paths of the rules that are about the object.
func IgnoredPaths(rules []IgnoreRule, ref ObjectReference) []string {
	var paths []string
	for _, rule := range rules {
		if rule.matches(ref) {
			paths = append(paths, rule.Paths...)
		}
	}
	return paths
}

// Ignored reports whether the path is one of those, or lies below one.
func Ignored(path string, ignored []string) bool {
	return slices.ContainsFunc(ignored, func(parent string) bool {
		return path == parent || strings.HasPrefix(path, parent+"/")
	})
}

// spare returns the object with the values that the ignored fields have now, so
// that applying it changes none of them.
func (o *operation) spare(info *resource.Info, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	paths := IgnoredPaths(o.ignore, reference(info))
	if len(paths) == 0 {
		return object, nil
	}
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return object, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the ignored fields of %s: %w", reference(info), err)
	}
	spared, err := prepare(object)
	if err != nil {
		return nil, &RefusedError{Object: reference(info), Err: err}
	}
	for _, path := range paths {
		adopt(spared.Object, live.Object, pointerTokens(path))
	}
	return spared, nil
}

// adopt gives the field at the path, in what is wanted, the value that it has in
// the live object: none, if it has none there. A field that is not wanted, and
// whose parent is not, stays unwanted.
func adopt(wanted, live any, path []string) {
	switch parent := wanted.(type) {
	case map[string]any:
		liveParent, _ := live.(map[string]any)
		value, exists := liveParent[path[0]]
		child, isWanted := parent[path[0]]
		switch {
		case len(path) > 1 && isWanted:
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
		value := sameItem(parent[index], live, index)
		if len(path) > 1 {
			adopt(parent[index], value, path[1:])
		} else if value != nil {
			parent[index] = value
		}
	}
}

// sameItem returns the item of a live list that the wanted one stands for: that
// of the same name, or, without names, of the same place.
func sameItem(wanted, live any, index int) any {
	if found := itemLike(wanted, live); found != nil {
		return found
	}
	items, _ := live.([]any)
	if fields, named := wanted.(map[string]any); named && fields["name"] != nil || index >= len(items) {
		return nil
	}
	return items[index]
}

func pointerTokens(path string) []string {
	tokens := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens
}

func pointerToken(field string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(field, "~", "~0"), "/", "~1")
}

// differences are the paths of the fields whose values differ, as JSON pointers
// into what is wanted. Values are not told: some are secret.
func differences(wanted, live any, path string) []string {
	switch w := wanted.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return []string{path}
		}
		return differentFields(w, l, path)
	case []any:
		l, ok := live.([]any)
		if !ok || len(l) != len(w) {
			return []string{path}
		}
		var found []string
		for i := range w {
			found = append(found, differences(w[i], sameItem(w[i], l, i), path+"/"+strconv.Itoa(i))...)
		}
		return found
	default:
		if wanted == live {
			return nil
		}
		return []string{path}
	}
}

func differentFields(wanted, live map[string]any, path string) []string {
	names := slices.Sorted(maps.Keys(wanted))
	for name := range live {
		if _, ok := wanted[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var found []string
	for _, name := range names {
		is, inLive := live[name]
		want, inWanted := wanted[name]
		if inLive != inWanted {
			found = append(found, path+pointerToken(name))
			continue
		}
		found = append(found, differences(want, is, path+pointerToken(name))...)
	}
	return found
}
