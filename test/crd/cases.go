// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/example/demoapp-controller/test/expect"
)

// Cases are objects that the API server admits or refuses.
type Cases []struct {
	// Name is the name of the test, Object the name of the object, and Spec its spec in YAML.
	Name, Object, Spec string
	// Field and Message are the field and the message of the refusal. They are empty if the object is admitted.
	Field, Message string
}

// TestAdmission holds which objects are admitted, and why the rest are refused.
func (d *Definition) TestAdmission(t *testing.T, cases Cases) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.Name, func(t *testing.T) {
			errs := d.Admit(t, d.Object(t, test.Object, test.Spec))

			if test.Field == "" {
				if len(errs) > 0 {
					t.Error(errs.ToAggregate())
				}
				return
			}
			if !slices.ContainsFunc(errs, func(err *field.Error) bool {
				return err.Field == test.Field && strings.Contains(err.Error(), test.Message)
			}) {
				t.Errorf("got %v, want an error of field %q containing %q", errs, test.Field, test.Message)
			}
		})
	}
}

// TestDefaults holds that an object is admitted, and its spec with all defaults.
func (d *Definition) TestDefaults(t *testing.T, name, spec string, want map[string]any) {
	t.Helper()
	object := d.Object(t, name, spec)

	errs := d.Admit(t, object)

	if len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	expect.Equal(t, "spec", any(want), object["spec"])
}

// TestColumns holds what kubectl get shows of an object with a status, apart from its age.
func (d *Definition) TestColumns(t *testing.T, name, spec string, status, want map[string]any) {
	t.Helper()
	object := d.Object(t, name, spec)
	object["status"] = status

	row := d.Row(t, object)

	delete(row, "Age")
	expect.Equal(t, "columns", want, row)
}
