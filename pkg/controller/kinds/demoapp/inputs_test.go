// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
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

// TestFailuresCountByContent: other content of a source resets the consecutive failures.
// The same content written again does not.
func TestFailuresCountByContent(t *testing.T) {
	w := newWorld(t)
	w.secret(map[string]string{"k": "verysecret"})
	w.create(newApp("a", keyFrom("keys", "k"), remediating(5, releasev1alpha1.RemediationRollback)))
	attempt := func(step string, want int64) {
		t.Helper()
		w.engine.Failures = []error{errPlain}
		if _, err := w.pass("a", controller.SpecChange|controller.Retry); err == nil {
			t.Errorf("%s: no error", step)
		}
		expect.Equal(t, step, want, w.app("a").Status.Failures.Consecutive)
	}
	attempt("first", 1)
	attempt("again", 2)
	w.secret(map[string]string{"k": "verysecret", "other": "x"})
	attempt("another key of the Secret", 3)
	w.secret(map[string]string{"k": "othersecret"})
	attempt("another content", 1)

	w.start(testChart(t, "1.0.0"))
	attempt("after a restart", 2)
}
