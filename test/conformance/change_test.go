// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"testing"
)

// TestChange changes releases by more than other values of the same fields.
func TestChange(t *testing.T) {
	t.Parallel()
	scenarios := []scenario{
		{
			name: "another apiVersion of an object",
			steps: []step{
				deploy("install", "changing", nil),
				deploy("newer version", "changing", values{"version": "v2"}),
				deploy("back", "changing", values{"version": "v1"}),
				uninstall,
			},
		},
		{
			name: "object renamed, removed, moved to another kind",
			steps: []step{
				deploy("install", "changing", nil),
				deploy("rename", "changing", values{"name": "second"}),
				deploy("remove", "changing", values{"name": ""}),
				deploy("move", "changing", values{"kind": "Secret"}).but(stringData("moved")),
				deploy("move back", "changing", nil),
				uninstall,
			},
		},
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t)
		})
	}
}

// TestImmutableFields changes immutable fields. The upgrade fails, and a valid one corrects the
// release.
func TestImmutableFields(t *testing.T) {
	t.Parallel()
	for field, value := range (values{"command": "two", "selector": "two", "clusterIP": "10.0.0.1", "frozen": "two"}) {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			scenario{steps: []step{
				deploy("install", "immutable", nil),
				deploy("change", "immutable", values{field: value, "message": "two", "added": true}).fails(classRefused).but(failureText),
				deploy("other values", "immutable", values{"message": "three"}),
				deploy("with the object that was cleaned up", "immutable", values{"message": "three", "added": true}),
				uninstall,
			}}.play(t)
		})
	}
}

// TestSchema uses values that a chart's schema or templates refuse, and values that render objects
// which the API server refuses.
func TestSchema(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values values
		class  string
		// deviations are the deviations of the failing steps.
		deviations []deviation
	}{
		{name: "wrong type", values: values{"count": "many"}, class: classRender},
		{name: "not one of the choices", values: values{"mode": "slower"}, class: classRender},
		{name: "refused by a template", values: values{"count": 101}, class: classRender},
		{name: "required by a template", values: values{"count": 99}, class: classRender},
		{name: "not YAML", values: values{"broken": true}, class: classRender},
		{name: "unknown field", values: values{"unknownField": true}, class: classRefused, deviations: []deviation{failureText}},
		{name: "wrong type of a field", values: values{"wrongType": true}, class: classRefused, deviations: []deviation{failureText}},
		{name: "unknown kind", values: values{"unknownKind": true}, class: classKind},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			scenario{validating: true, steps: []step{
				deploy("install", "schema", test.values).fails(test.class).but(test.deviations...),
				deploy("good values", "schema", values{"count": 2}),
				deploy("upgrade", "schema", test.values).fails(test.class),
				deploy("good values again", "schema", values{"count": 3, "mode": "slow"}),
				uninstall,
			}}.play(t)
		})
	}
}
