// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// checkInvariants asserts, at the end of a test, that no version of any DemoApp broke a rule that
// always holds.
func (n *Namespace) checkInvariants() {
	n.t.Helper()
	for name, versions := range n.history.everything() {
		var before *v1alpha1.DemoApp
		for i, version := range versions {
			if version.Deleted {
				before = nil
				continue
			}
			for _, broken := range append(brokenRules(version.App), brokenOrder(before, version.App)...) {
				n.t.Errorf("DemoApp %s/%s, version %d: %s", n.Name, name, i, broken)
			}
			before = version.App
		}
	}
}

// onlyWhileTrue are the conditions that are absent unless they are True.
var onlyWhileTrue = []string{
	releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionDrifted, apimeta.ConditionReconciling, apimeta.ConditionStalled,
}

// brokenRules returns the rules for single versions that a DemoApp breaks.
func brokenRules(app *v1alpha1.DemoApp) (broken []string) {
	status := app.Status
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, condition := range status.Conditions {
		if condition.ObservedGeneration < 1 || condition.ObservedGeneration > app.Generation {
			report("%s was observed at generation %d of %d", condition.Type, condition.ObservedGeneration, app.Generation)
		}
		if slices.Contains(onlyWhileTrue, condition.Type) && condition.Status != metav1.ConditionTrue {
			report("%s is %s instead of absent", condition.Type, condition.Status)
		}
	}
	if !IsAbsent(app, apimeta.ConditionStalled) && !IsAbsent(app, apimeta.ConditionReconciling) {
		report("Stalled and Reconciling are there together")
	}
	if Has(app, apimeta.ConditionReady, metav1.ConditionTrue, "") {
		for _, other := range onlyWhileTrue {
			// Drift makes a DemoApp unready before the status reports the drift.
			if !IsAbsent(app, other) && other != releasev1alpha1.ConditionDrifted {
				report("Ready beside %s", other)
			}
		}
		if !Has(app, releasev1alpha1.ConditionDeployed, metav1.ConditionTrue, "") {
			report("Ready without Deployed")
		}
	}
	if len(status.Conditions) > 0 && IsAbsent(app, apimeta.ConditionReady) {
		report("no Ready beside other conditions")
	}
	if status.ObservedGeneration > app.Generation {
		report("observedGeneration %d of %d", status.ObservedGeneration, app.Generation)
	}
	if status.ObservedGeneration == app.Generation && Condition(app, apimeta.ConditionReady).ObservedGeneration != app.Generation {
		report("observedGeneration says that Ready is about this generation, but it is about %d",
			Condition(app, apimeta.ConditionReady).ObservedGeneration)
	}
	if status.DeployedRelease != nil && app.DeletionTimestamp == nil && !slices.Contains(app.Finalizers, v1alpha1.Finalizer) {
		report("deployed without a finalizer")
	}
	return broken
}

// brokenOrder returns the fields that went backward from one version to the next.
func brokenOrder(before, after *v1alpha1.DemoApp) (broken []string) {
	if before == nil || before.UID != after.UID {
		return nil
	}
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	if after.Status.ObservedGeneration < before.Status.ObservedGeneration {
		report("observedGeneration went from %d to %d", before.Status.ObservedGeneration, after.Status.ObservedGeneration)
	}
	if before.Status.LastUpgradeAt != nil && after.Status.LastUpgradeAt.Before(before.Status.LastUpgradeAt) {
		report("lastUpgradeAt went from %s to %s", before.Status.LastUpgradeAt, after.Status.LastUpgradeAt)
	}
	for _, condition := range before.Status.Conditions {
		if is := Condition(after, condition.Type); is.Status != "" && is.ObservedGeneration < condition.ObservedGeneration {
			report("%s went from generation %d to %d", condition.Type, condition.ObservedGeneration, is.ObservedGeneration)
		}
	}
	return broken
}
