// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

func TestCRDsAreStructural(t *testing.T) {
	for _, file := range Files(t) {
		t.Run(file, func(t *testing.T) {
			if errs := schema.ValidateStructural(nil, Load(t, file).Structural); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

// TestCRDsAreDocumentedAndBounded holds that "kubectl explain" has an answer for every
// field, and that no field can grow without a limit.
func TestCRDsAreDocumentedAndBounded(t *testing.T) {
	for _, file := range Files(t) {
		t.Run(file, func(t *testing.T) {
			for _, problem := range Load(t, file).Unbounded() {
				t.Error(problem)
			}
		})
	}
}

// TestRulesOfSpecSayWhatToWrite holds that no field of a spec has a pattern, because its message is
// the regular expression, and that no message repeats the field, which the API server puts before
// it.
func TestRulesOfSpecSayWhatToWrite(t *testing.T) {
	for _, file := range Files(t) {
		t.Run(file, func(t *testing.T) {
			for _, problem := range Load(t, file).Wordless() {
				t.Error(problem)
			}
		})
	}
}
