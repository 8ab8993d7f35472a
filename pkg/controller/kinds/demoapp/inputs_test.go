// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

// failedInputs returns status.failures.inputs of an app whose install failed with a key.
func failedInputs(t *testing.T, key string) string {
	t.Helper()
	w := newWorld(t)
	w.secret(map[string]string{"k": key})
	w.private("password: " + key)
	w.create(newApp("a", keyFrom("keys", "k"), valuesFrom(secretValues)))
	w.engine.Failures = []error{errPlain}
	if _, err := w.pass("a", controller.SpecChange); err == nil {
		t.Fatal("the install did not fail")
	}
	return w.app("a").Status.Failures.Inputs
}

// TestFailureInputsDoNotRevealKey: objects of the same versions give the same inputs,
// whatever their content is.
func TestFailureInputsDoNotRevealKey(t *testing.T) {
	one, other := failedInputs(t, "verysecret"), failedInputs(t, "othersecret")
	expect.Equal(t, "inputs of another key", one, other)
	expect.Equal(t, "length", 32, len(one))
}
