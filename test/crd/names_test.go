// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"slices"
	"testing"
)

// TestNamesAreUnique: kubectl takes an argument for a category before it takes it for a kind. It
// then refuses the name of an object after it.
func TestNamesAreUnique(t *testing.T) {
	kinds, categories := map[string]string{}, map[string]string{}
	for _, file := range Files(t) {
		names := Load(t, file).Internal.Spec.Names
		for _, name := range slices.Concat([]string{names.Plural, names.Singular}, names.ShortNames) {
			if other, taken := kinds[name]; taken && other != names.Kind {
				t.Errorf("%q is a name of %s and of %s", name, other, names.Kind)
			}
			kinds[name] = names.Kind
		}
		for _, category := range names.Categories {
			categories[category] = names.Kind
		}
	}
	for category, of := range categories {
		if kind, taken := kinds[category]; taken {
			t.Errorf("category %q of %s is a name of %s", category, of, kind)
		}
	}
}
