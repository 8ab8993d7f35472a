// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/chart"
)

// specPrefix is "spec." at the beginning of a path. A comma without a backslash begins a further
// path.
var specPrefix = regexp.MustCompile(`(^|[^\\],)spec\.`)

// WithFields returns an object with changed fields of its spec. A change is written as in
// `helm install --set`: spec.service.port=8080. A path without "spec." is below spec.
func WithFields(object *unstructured.Unstructured, changes []string) (*unstructured.Unstructured, error) {
	assignments := map[string]string{}
	for _, change := range changes {
		path, value, ok := strings.Cut(specPrefix.ReplaceAllString(change, "$1"), "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--set %q: write PATH=VALUE, as in spec.replicaCount=3", change)
		}
		assignments[path] = value
	}
	changed := object.DeepCopy()
	spec, _, err := unstructured.NestedMap(changed.Object, "spec")
	if err != nil {
		return nil, err
	}
	if len(assignments) == 0 {
		return changed, nil
	}
	if spec, _, err = chart.SetValues(spec, assignments); err != nil {
		return nil, fmt.Errorf("--set: %w", err)
	}
	return changed, unstructured.SetNestedMap(changed.Object, spec, "spec")
}

// Replaced returns a live object with the spec, the labels and the annotations of a given one, as
// after kubectl apply of the given one. Labels and annotations that the given object does not have
// stay. Without a live object, it returns the given one.
func Replaced(live, given *unstructured.Unstructured) *unstructured.Unstructured {
	if live == nil {
		return given
	}
	replaced := live.DeepCopy()
	replaced.Object["spec"] = given.DeepCopy().Object["spec"]
	replaced.SetLabels(merge(live.GetLabels(), given.GetLabels()))
	replaced.SetAnnotations(merge(live.GetAnnotations(), given.GetAnnotations()))
	return replaced
}

// merge returns the texts of both maps; nil if both are empty.
func merge(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	merged := maps.Clone(over)
	for key, text := range base {
		if _, has := over[key]; !has {
			merged[key] = text
		}
	}
	return merged
}
