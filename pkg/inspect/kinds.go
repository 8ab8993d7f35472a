// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Kind is a kind that the operator serves.
type Kind struct {
	schema.GroupVersionKind

	// Resource is the plural name, Singular the singular, as in URLs and on the command line.
	Resource, Singular string
	ShortNames         []string
	Namespaced         bool
}

// names reports whether a user means the kind by a word: the kind, the resource, the singular or a
// short name, with or without the group.
func (k Kind) names(word string) bool {
	name, group, qualified := strings.Cut(strings.ToLower(word), ".")
	if qualified && group != k.Group && group != k.Version+"."+k.Group {
		return false
	}
	return strings.EqualFold(name, k.Kind) || name == k.Resource || name == k.Singular || slices.Contains(k.ShortNames, name)
}

// UnknownKindError means that the operator serves no kind of a name.
type UnknownKindError struct {
	Word  string
	Known []Kind
}

// Error names the kinds that the operator serves.
func (e *UnknownKindError) Error() string {
	names := make([]string, 0, len(e.Known))
	for _, kind := range e.Known {
		names = append(names, strings.ToLower(kind.Kind))
	}
	if len(names) == 0 {
		return fmt.Sprintf("no kind %q: the API server serves no kind of the category %s, and the operator reports none on its Lease "+
			"(--operator-namespace and --operator-lease name it); install the CRDs", e.Word, apimeta.Category)
	}
	if near := Nearest(e.Word, names); near != "" {
		return fmt.Sprintf("no kind %q; did you mean %q?", e.Word, near)
	}
	return fmt.Sprintf("no kind %q; the kinds are %s", e.Word, strings.Join(names, ", "))
}

// Kinds returns the kinds that the operator serves, sorted by group and name: those whose CRD has
// the category [apimeta.Category], those that the operator reports, and further ones. It succeeds if
// the report cannot be read, because users of a single namespace may not read it.
func (c *Cluster) Kinds(ctx context.Context, further ...schema.GroupKind) ([]Kind, error) {
	report, _ := c.Report(ctx)
	return c.served(func(resource schema.GroupResource, kind schema.GroupKind, categories []string) bool {
		return report.serves(resource, kind) || slices.Contains(categories, apimeta.Category) || slices.Contains(further, kind)
	})
}

// served returns the kinds of the API server that match, sorted by group and name.
func (c *Cluster) served(match func(resource schema.GroupResource, kind schema.GroupKind, categories []string) bool) ([]Kind, error) {
	_, lists, err := c.Discovery.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("discover the kinds of the API server: %w", err)
	}
	found := map[schema.GroupKind]Kind{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			gvk := version.WithKind(resource.Kind)
			// The API server lists the versions of a group in the order of preference.
			if _, known := found[gvk.GroupKind()]; known || strings.Contains(resource.Name, "/") {
				continue
			}
			if match(version.WithResource(resource.Name).GroupResource(), gvk.GroupKind(), resource.Categories) {
				found[gvk.GroupKind()] = kindOf(gvk, resource)
			}
		}
	}
	kinds := make([]Kind, 0, len(found))
	for _, kind := range found {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b Kind) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind)) })
	return kinds, nil
}

func kindOf(gvk schema.GroupVersionKind, resource metav1.APIResource) Kind {
	return Kind{
		GroupVersionKind: gvk, Resource: resource.Name, Namespaced: resource.Namespaced, ShortNames: resource.ShortNames,
		Singular: cmp.Or(resource.SingularName, strings.ToLower(resource.Kind)),
	}
}

// Kind returns the kind that a user means by a word, such as demoapp, da or
// demoapps.demo.example.com. The error is an [UnknownKindError] if the operator serves no such kind,
// and the further kinds do not have it either. A user may name any custom resource if there is no
// report of the operator, or the user may not read it.
func (c *Cluster) Kind(ctx context.Context, word string, further ...schema.GroupKind) (Kind, error) {
	kinds, err := c.Kinds(ctx, further...)
	if err != nil {
		return Kind{}, err
	}
	found := named(kinds, word)
	if _, err := c.Report(ctx); len(found) == 0 && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		all, err := c.served(func(resource schema.GroupResource, _ schema.GroupKind, _ []string) bool {
			return !helm.IsBuiltIn(resource.Group)
		})
		if err != nil {
			return Kind{}, err
		}
		found = named(all, word)
	}
	switch len(found) {
	case 0:
		return Kind{}, &UnknownKindError{Word: word, Known: kinds}
	case 1:
		return found[0], nil
	default:
		return Kind{}, fmt.Errorf("kind %q is ambiguous; write %s.%s or %s.%s",
			word, found[0].Resource, found[0].Group, found[1].Resource, found[1].Group)
	}
}

// named returns the kinds that a user means by a word.
func named(kinds []Kind, word string) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind Kind) bool { return !kind.names(word) })
}

// Nearest returns the word that a user meant by a mistyped one; empty if none is near.
func Nearest(word string, words []string) string {
	best, least := "", len(word)/3+2
	for _, candidate := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
