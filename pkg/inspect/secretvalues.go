// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/base64"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/helm"
)

// minMaskedText is the length of the shortest text of a secret value that is hidden elsewhere, too.
const minMaskedText = 4

// withValues adds the values at the paths as secrets, and their texts wherever else they are.
func (m Mask) withValues(all map[string]any, paths [][]string) Mask {
	m.Paths, m.texts = slices.Concat(m.Paths, paths), slices.Clone(m.texts)
	for _, path := range paths {
		value, _, _ := unstructured.NestedFieldNoCopy(all, path...)
		for text := range texts(value) {
			if len(text) >= minMaskedText {
				m.texts = append(m.texts, text, base64.StdEncoding.EncodeToString([]byte(text)))
			}
		}
	}
	return m
}

// texts yields the texts in a value.
func texts(value any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var visit func(any) bool
		visit = func(value any) bool {
			switch value := value.(type) {
			case string:
				return yield(value)
			case map[string]any:
				for _, inner := range value {
					if !visit(inner) {
						return false
					}
				}
			case []any:
				return !slices.ContainsFunc(value, func(item any) bool { return !visit(item) })
			}
			return true
		}
		visit(value)
	}
}

// masking returns the mask of the Differ for recorded revisions of an owner. A record does not say
// which of its values were in Secrets, and those Secrets may have changed since. So every value is
// secret that is neither a default of the chart nor set by the spec or a ConfigMap.
func (d Differ) masking(ctx context.Context, owner *unstructured.Unstructured, records ...*helm.Recorded) Mask {
	mask := d.Mask
	if mask.Show {
		return mask
	}
	shown := d.shownValues(ctx, owner)
	for _, record := range records {
		open, secret := d.withFieldsOf(ctx, owner, shown, record.Values)
		var paths [][]string
		for _, path := range leaves(record.Values, nil) {
			_, isOpen, _ := unstructured.NestedFieldNoCopy(open, path...)
			isSecret := slices.ContainsFunc(secret, func(prefix []string) bool { return hasPrefix(path, prefix) })
			value, _, _ := unstructured.NestedFieldNoCopy(record.Values, path...)
			usual, hasDefault, _ := unstructured.NestedFieldNoCopy(record.Defaults, path...)
			if isSecret || !isOpen && (!hasDefault || !sameValue(usual, value)) {
				paths = append(paths, path)
			}
		}
		mask = mask.withValues(record.Values, paths)
	}
	return mask
}

// shownValues returns the values that the spec of an owner and its ConfigMaps have, without those
// that fields of the spec become.
func (d Differ) shownValues(ctx context.Context, owner *unstructured.Unstructured) (shown map[string]any) {
	spec, content, err := valuesSpecOf(owner)
	if d.Functions.Fields == nil {
		return content
	}
	if err != nil {
		return nil
	}
	for _, from := range spec.ValuesFrom {
		if from.Kind == releasev1alpha1.ValuesFromSecret {
			continue
		}
		// Without the ConfigMap, its values are hidden.
		if layer, err := (sources{key: d.key}).referenced(ctx, owner.GetNamespace(), from); err == nil {
			shown = values.Merge(shown, layer.Values)
		}
	}
	return values.Merge(shown, spec.Values)
}

// withFieldsOf adds the values that fields of the spec become, and returns the paths of secrets
// among them. It reads no Secret.
func (d Differ) withFieldsOf(
	ctx context.Context, owner *unstructured.Unstructured, shown, recorded map[string]any,
) (all map[string]any, secret [][]string) {
	if d.Functions.Fields == nil {
		return shown, nil
	}
	fields, err := d.Functions.Fields(owner, FieldsInput{
		Deployed: recorded, Images: d.images(ctx), Secret: func(string, string) (string, error) { return masked, nil },
	})
	if err != nil {
		return shown, nil
	}
	return values.Merge(shown, fields.Values), fields.Secret
}
