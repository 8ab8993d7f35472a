// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/expect"
)

// unobserve makes Deployments a kind that cannot be watched.
func (w *world) unobserve() {
	w.engine.Unobserved = []helm.UnobservedKind{{
		Kind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Err: errors.New("the conversion webhook is away"),
	}}
}

// TestReadyIsUnknownWithUnobservedKind: Ready is Unknown and names the kind and the cause while
// objects cannot be watched. The other objects are corrected.
func TestReadyIsUnknownWithUnobservedKind(t *testing.T) {
	w := deployed(t)
	w.unobserve()
	w.engine.Mutate(keyOf("a"), releasetest.Edit("ConfigMap"))

	w.passes("a", controller.HealthChange|controller.Drift)

	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "Unknown ObserveFailed", "Reconciling", "True ObserveFailed",
		"Deployed", "True InstallSucceeded"), w.conditions("a"))
	ready := meta.FindStatusCondition(w.shop("a").Status.Conditions, apimeta.ConditionReady)
	expect.Contains(t, "message", ready.Message, "Deployment.apps", "the conversion webhook is away", "the other objects are observed and corrected")
	expect.Equal(t, "repaired", 1, len(w.engine.Repaired))

	w.engine.Unobserved = nil
	w.passes("a", controller.HealthChange)

	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "True Healthy", "Deployed", "True InstallSucceeded"), w.conditions("a"))
}

// TestUnobservedKindIsNoFailure: a revision whose objects cannot be watched is neither failed nor
// rolled back when its time is over.
func TestUnobservedKindIsNoFailure(t *testing.T) {
	w := neverHealthy(t)
	w.create(newShop("a", waitsForReady, remediating(1, releasev1alpha1.RemediationRollback)))
	w.unfinished("a", controller.SpecChange)
	w.engine.Mutate(keyOf("a"), func(r *releasetest.Release) { r.Record.Changed = w.clock.Now() })
	w.unobserve()
	w.clock.Step(2 * helm.DefaultTimeout)

	w.passes("a", controller.PeriodicResync)

	expect.Equal(t, "marks", 0, len(w.marks()))
	expect.Equal(t, "conditions", releasetest.Conditions("Ready", "Unknown ObserveFailed", "Reconciling", "True ObserveFailed",
		"Deployed", "True InstallSucceeded"), w.conditions("a"))
}
