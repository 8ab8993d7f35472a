// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/redact"
)

// The texts in the place of a secret. Two secrets of a comparison show only whether they are equal,
// in the words of kubectl diff.
const (
	masked       = "***"
	maskedBefore = "*** (before)"
	maskedAfter  = "*** (after)"
)

// secretName are the names of values that hold a secret in most charts.
var secretName = regexp.MustCompile(`(?i)(passwords?|passwd|passphrase|tokens?|(api|secret|private|access|encryption|signing)[_-]?keys?|credentials?)$`)

// Mask hides secrets: the data of Secrets, the values at secret paths, values with a name such as
// password, and all texts that contain the data of a Secret. The zero value knows no secret paths.
type Mask struct {
	// Show shows all secrets.
	Show bool
	// Paths are the secret paths of values.
	Paths [][]string

	texts []string
}

// minSecretText is the length of the shortest text that is looked for inside of other texts. A
// shorter text hides only an equal text.
const minSecretText = 8

// withSecretsOf adds the data of the Secrets among objects.
func (m Mask) withSecretsOf(objects []*unstructured.Unstructured) Mask {
	m.texts = slices.Clone(m.texts)
	for _, object := range objects {
		if object.GroupVersionKind() != secrets {
			continue
		}
		data, _, _ := unstructured.NestedMap(object.Object, "data")
		for _, value := range data {
			encoded, _ := value.(string)
			if text, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(text) > 3 {
				m.texts = append(m.texts, string(text), encoded)
			}
		}
	}
	return m
}

// isSecret reports whether a leaf is secret.
func (m Mask) isSecret(path []string, leaf any) bool {
	text, isText := leaf.(string)
	if leaf != nil && slices.ContainsFunc(m.Paths, func(secret []string) bool { return hasPrefix(path, secret) }) {
		return true
	}
	return len(path) > 0 && mayBeSecret(path[len(path)-1], leaf) ||
		isText && text != "" && slices.ContainsFunc(m.texts, func(secret string) bool {
			return text == secret || len(secret) >= minSecretText && strings.Contains(text, secret)
		})
}

// mayBeSecret reports whether a value with a name is secret by its name. A password may be a
// number. A switch, such as automountServiceAccountToken, is no secret.
func mayBeSecret(name string, value any) bool {
	switch value := value.(type) {
	case nil, bool, map[string]any, []any:
		return false
	case string:
		return value != "" && secretName.MatchString(name)
	default:
		return secretName.MatchString(name)
	}
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// pair returns two values with masked secrets. A value is nil if it is absent.
func (m Mask) pair(path []string, before, after any) (maskedB, maskedA any) {
	if m.Show {
		return before, after
	}
	fieldsB, isMapB := before.(map[string]any)
	fieldsA, isMapA := after.(map[string]any)
	if (isMapB || before == nil) && (isMapA || after == nil) && (isMapB || isMapA) {
		return m.pairOfMaps(path, fieldsB, fieldsA)
	}
	itemsB, isListB := before.([]any)
	itemsA, isListA := after.([]any)
	if (isListB || before == nil) && (isListA || after == nil) && (isListB || isListA) {
		return m.pairOfLists(path, itemsB, itemsA)
	}
	hideB, hideA := m.hides(path, before), m.hides(path, after)
	if !hideB && !hideA {
		return before, after
	}
	switch {
	case before == nil:
		return nil, masked
	case after == nil:
		return masked, nil
	case reflect.DeepEqual(before, after):
		return masked, masked
	default:
		return maskedBefore, maskedAfter
	}
}

// Object returns a copy of an object without its secrets. The annotation of kubectl apply is left
// out, because it repeats the spec as text.
func (m Mask) Object(object *unstructured.Unstructured) *unstructured.Unstructured {
	if m.Show {
		return object
	}
	_, hidden := m.pair(nil, nil, object.Object)
	content, _ := hidden.(map[string]any)
	clean := (&unstructured.Unstructured{Object: content}).DeepCopy()
	annotations := clean.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	clean.SetAnnotations(annotations)
	return clean
}

// MaskedFields returns the fields that [Mask.Object] has masked in an object, such as
// "spec.apiKey", sorted.
func MaskedFields(object, shown *unstructured.Unstructured) []string {
	var found []string
	visitMasked("", object.Object, shown.Object, func(field string, _ any) { found = append(found, field) })
	slices.Sort(found)
	return found
}

// WithoutSecrets returns an error that does not quote the values that Object masks. The API server
// quotes values that it refuses.
func (m Mask) WithoutSecrets(err error, object *unstructured.Unstructured) error {
	if err == nil {
		return nil
	}
	var values []string
	visitMasked("", object.Object, m.Object(object).Object, func(_ string, value any) { values = append(values, fmt.Sprint(value)) })
	return redact.Error(values, err)
}

// visitMasked calls found with each leaf that differs in the masked version of a value.
func visitMasked(at string, value, shown any, found func(field string, value any)) {
	switch value := value.(type) {
	case map[string]any:
		fields, _ := shown.(map[string]any)
		for key, inner := range value {
			if shownInner, isShown := fields[key]; isShown {
				visitMasked(strings.TrimPrefix(at+"."+key, "."), inner, shownInner, found)
			}
		}
	case []any:
		items, _ := shown.([]any)
		for i := range min(len(value), len(items)) {
			visitMasked(fmt.Sprintf("%s[%d]", at, i), value[i], items[i], found)
		}
	default:
		if shown == masked && value != shown {
			found(at, value)
		}
	}
}

// hides reports whether a value is, or contains, a secret.
func (m Mask) hides(path []string, value any) bool {
	switch value := value.(type) {
	case map[string]any:
		if _, hasValue := value["value"]; hasValue && secretNameOf(value) != "" {
			return true
		}
		for key, inner := range value {
			if m.hides(append(slices.Clone(path), key), inner) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(value, func(item any) bool { return m.hides(path, item) })
	default:
		return m.isSecret(path, value)
	}
}

func (m Mask) pairOfMaps(path []string, before, after map[string]any) (maskedB, maskedA any) {
	keys := sets.KeySet(before).Union(sets.KeySet(after))
	variable := cmp.Or(secretNameOf(before), secretNameOf(after))
	b, a := make(map[string]any, len(before)), make(map[string]any, len(after))
	for key := range keys {
		valueB, hadB := before[key]
		valueA, hasA := after[key]
		at := append(slices.Clone(path), key)
		if key == "value" && variable != "" {
			at = append(at, variable) // The name of the variable says that it is a secret.
		}
		valueB, valueA = m.pair(at, valueB, valueA)
		if hadB {
			b[key] = valueB
		}
		if hasA {
			a[key] = valueA
		}
	}
	return orNil(before, b), orNil(after, a)
}

// secretNameOf returns the name of a field with a name and a value, as in the environment of a
// container, if the name suggests a secret; empty otherwise.
func secretNameOf(fields map[string]any) string {
	name, _ := fields["name"].(string)
	if !secretName.MatchString(name) {
		return ""
	}
	return name
}

// orNil returns a value, or nil if the original is absent.
func orNil(original, value map[string]any) any {
	if original == nil {
		return nil
	}
	return value
}

// pairOfLists compares lists of the same length item by item. Other lists are masked on their own.
func (m Mask) pairOfLists(path []string, before, after []any) (maskedB, maskedA any) {
	b, a := []any{}, []any{}
	if before != nil && len(before) == len(after) {
		for i := range before {
			itemB, itemA := m.pair(path, before[i], after[i])
			b, a = append(b, itemB), append(a, itemA)
		}
		return b, a
	}
	for _, item := range before {
		_, item = m.pair(path, nil, item)
		b = append(b, item)
	}
	for _, item := range after {
		_, item = m.pair(path, nil, item)
		a = append(a, item)
	}
	if before == nil {
		return nil, a
	}
	if after == nil {
		return b, nil
	}
	return b, a
}

// compareValues compares the values of two revisions.
func (m Mask) compareValues(before, after map[string]any) Difference {
	b, a := m.pairOfMaps(nil, emptyIfNil(before), emptyIfNil(after))
	if m.Show {
		b, a = before, after
	}
	return Difference{Title: "values", Before: text(b), After: text(a)}
}

func emptyIfNil(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return values
}

// compare compares two versions of an object; nil for an absent one.
func (m Mask) compare(reference Reference, before, after *unstructured.Unstructured) Difference {
	var b, a any
	if before != nil {
		b = contentOf(before)
	}
	if after != nil {
		a = contentOf(after)
	}
	if reference.GroupVersionKind == secrets {
		m.Paths = append(slices.Clone(m.Paths), []string{"data"}, []string{"stringData"})
	}
	b, a = m.pair(nil, b, a)
	return Difference{Reference: reference, Before: text(b), After: text(a)}
}

// contentOf returns the content of an object without the fields that the API server sets, and
// without the annotation of kubectl that repeats the object.
func contentOf(object *unstructured.Unstructured) map[string]any {
	content := object.DeepCopy().Object
	delete(content, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"} {
		unstructured.RemoveNestedField(content, "metadata", field)
	}
	unstructured.RemoveNestedField(content, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	return content
}

// text returns a value as YAML; empty for an absent or empty one.
func text(value any) string {
	if fields, ok := value.(map[string]any); value == nil || ok && len(fields) == 0 {
		return ""
	}
	content, err := yaml.Marshal(value)
	if err != nil {
		return err.Error() // Values from JSON can always be encoded.
	}
	return string(content)
}
