// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"testing"
	"time"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/helm"
)

// inConflict returns a world in which an object of another owner conflicts with the
// release "a".
func inConflict(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.create(newApp("a"))
	w.engine.ConflictState = "theirs"
	w.engine.Failures = []error{&helm.OwnershipConflictError{
		Object: helm.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: "a"}, Holder: "their tool", Seen: "theirs",
	}}
	result, err := w.pass("a", controller.SpecChange)
	if !controller.IsTerminal(err) {
		t.Fatalf("error is %v, want a terminal one", err)
	}
	if after := result.RequeueAfter; after <= 30*time.Second || after >= time.Minute {
		t.Errorf("requeued after %s, want less than a minute", after)
	}
	equal(t, "Ready", "False OwnershipConflict", w.conditions("a")["Ready"])
	w.calls.take()
	return w
}

func TestConflictingObjectIsChecked(t *testing.T) {
	w := inConflict(t)
	for range 4 {
		w.passes("a", controller.Drift)
		equal(t, "calls within the interval", []string(nil), w.calls.take())
		w.clock.Step(time.Minute)
		w.passes("a", controller.PeriodicResync)
		equal(t, "calls after the interval", []string{"look Secret"}, w.calls.take())
		equal(t, "Ready", "False OwnershipConflict", w.conditions("a")["Ready"])
	}
}

func TestConflictEndsAfterObjectIsDeleted(t *testing.T) {
	for name, seen := range map[string]string{"gone": "", "of another owner": "other"} {
		t.Run(name, func(t *testing.T) {
			w := inConflict(t)
			w.engine.ConflictState = seen
			w.clock.Step(time.Minute)

			w.passes("a", controller.PeriodicResync)

			equal(t, "conditions", conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
			w.calls.take()
			w.clock.Step(time.Minute)
			w.passes("a", controller.PeriodicResync)
			equal(t, "calls later", []string(nil), w.calls.take())
		})
	}
}

func TestFailedCheckDoesNotEndConflict(t *testing.T) {
	w := inConflict(t)
	w.engine.Failures = []error{errPlain}
	w.clock.Step(time.Minute)

	result := w.passes("a", controller.PeriodicResync)

	equal(t, "calls", []string{"look Secret"}, w.calls.take())
	equal(t, "Stalled", "True "+apimeta.ReasonOwnershipConflict, w.conditions("a")["Stalled"])
	if result.RequeueAfter >= time.Minute {
		t.Errorf("requeued after %s", result.RequeueAfter)
	}
}
