// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/test/expect"
)

// TestOwnGateIsNoWarning: the event about a change that a gate of the kind holds is normal.
func TestOwnGateIsNoWarning(t *testing.T) {
	held := newSample(condition("Approved", metav1.ConditionFalse, "NotApproved"), condition(apimeta.ConditionReady, metav1.ConditionFalse, "NotApproved"))
	gates := []kind.Gate{{Name: "approval", Condition: "Approved", Status: metav1.ConditionFalse}}

	for _, test := range []struct {
		name  string
		gates []kind.Gate
		want  string
	}{{"declared", gates, "Normal"}, {"not declared", nil, "Warning"}} {
		t.Run(test.name, func(t *testing.T) {
			found := eventsOf(newSample().Status, held.Status, releasev1alpha1.ReleasePolicy{}, heldReasons(test.gates, held.Status.Conditions)...)

			expect.Equal(t, "events", []event.Event{{Type: test.want, Reason: "NotApproved", Action: "Reconcile", Note: "NotApproved message"}}, found)
		})
	}
}
