// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
)

// byDependency indexes DemoApps by the DemoApp that they wait for.
const byDependency = "waitFor"

func dependencyIndex(object any) ([]string, error) {
	app, ok := object.(*v1alpha1.DemoApp)
	if !ok || app.Spec.WaitFor == "" {
		return nil, nil
	}
	return []string{cache.ObjectName{Namespace: app.Namespace, Name: app.Spec.WaitFor}.String()}, nil
}

// dependants returns the apps that wait for this one.
func (c *Controller) dependants(app *v1alpha1.DemoApp) []cache.ObjectName {
	waiting := c.Cached().ByIndex(app.Namespace, byDependency, cache.MetaObjectToName(app).String())
	dependants := make([]cache.ObjectName, 0, len(waiting))
	for _, dependant := range waiting {
		dependants = append(dependants, cache.MetaObjectToName(dependant))
	}
	return dependants
}

// dependencyChanged returns the reason to enqueue the dependants of a changed app. They
// depend on whether the app is deployed, being deleted, or part of a cycle.
func dependencyChanged(before, after *v1alpha1.DemoApp) controller.Reason {
	if before != nil && after != nil &&
		isDeployed(before) == isDeployed(after) &&
		(before.DeletionTimestamp == nil) == (after.DeletionTimestamp == nil) &&
		before.Spec.WaitFor == after.Spec.WaitFor &&
		inCycle(before) == inCycle(after) {
		return 0
	}
	return controller.DependencyReady
}

// isDeployed reports whether the dependants of the app may be deployed. An app that is
// being deleted does not count, because its release is being uninstalled. With
// waitForReady, a revision must have been healthy once.
func isDeployed(app *v1alpha1.DemoApp) bool {
	return app.DeletionTimestamp == nil && meta.IsStatusConditionTrue(app.Status.Conditions, releasev1alpha1.ConditionDeployed) &&
		(!app.Spec.WaitForReady || wasHealthy(app.Status))
}

// wasHealthy reports whether a revision was healthy once. While a newer revision is
// rolled out, Deployed stays True until that revision fails.
func wasHealthy(s v1alpha1.DemoAppStatus) bool { return s.LastGoodRevision > 0 }

func inCycle(app *v1alpha1.DemoApp) bool {
	condition := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionDependencyReady)
	return condition != nil && condition.Reason == v1alpha1.ReasonDependencyCycle
}

// observeDependency observes the app that waitFor names. It returns the blocker of a
// change, and whether this is the first pass after the wait.
func (c *Controller) observeDependency(p *pass) (becameReady bool, blockers []release.Blocker) {
	app := p.Object
	if app.Spec.WaitFor == "" {
		p.Conditions().Remove(v1alpha1.ConditionDependencyReady)
		return false, nil
	}
	lookup := func(name string) *v1alpha1.DemoApp {
		found, _ := c.Cached().Get(cache.NewObjectName(app.Namespace, name))
		return found
	}
	ready, reason, message := dependencyState(app, lookup)
	if ready {
		before := meta.FindStatusCondition(p.Observed.Status.Conditions, v1alpha1.ConditionDependencyReady)
		p.Conditions().Set(v1alpha1.ConditionDependencyReady, metav1.ConditionTrue, reason, message)
		return before != nil && before.Status != metav1.ConditionTrue, nil
	}
	p.Conditions().Set(v1alpha1.ConditionDependencyReady, metav1.ConditionFalse, reason, message)
	return false, []release.Blocker{{
		Reason: reason, Message: message, Stalled: reason == v1alpha1.ReasonDependencyCycle, NotForRollback: true,
	}}
}

// dependencyState decides whether the dependency is deployed, from the cached apps.
func dependencyState(app *v1alpha1.DemoApp, lookup func(name string) *v1alpha1.DemoApp) (ready bool, reason, message string) {
	if cycle := findCycle(app, lookup); cycle != nil {
		return false, v1alpha1.ReasonDependencyCycle,
			fmt.Sprintf("waitFor leads back to this DemoApp: %s; change waitFor of one of them", strings.Join(cycle, " -> "))
	}
	dependency := lookup(app.Spec.WaitFor)
	switch {
	case dependency == nil:
		return false, v1alpha1.ReasonWaiting, fmt.Sprintf("Waiting for DemoApp %q, which does not exist", app.Spec.WaitFor)
	case dependency.DeletionTimestamp != nil:
		return false, v1alpha1.ReasonWaiting, fmt.Sprintf("Waiting for DemoApp %q, which is being deleted", app.Spec.WaitFor)
	case !isDeployed(dependency) && meta.IsStatusConditionTrue(dependency.Status.Conditions, releasev1alpha1.ConditionDeployed):
		return false, v1alpha1.ReasonWaiting,
			fmt.Sprintf("Waiting for DemoApp %q to become healthy, because it has waitForReady", app.Spec.WaitFor)
	case !isDeployed(dependency):
		return false, v1alpha1.ReasonWaiting, fmt.Sprintf("Waiting for DemoApp %q to be deployed", app.Spec.WaitFor)
	default:
		return true, v1alpha1.ReasonDependencyDeployed, fmt.Sprintf("DemoApp %q is deployed", app.Spec.WaitFor)
	}
}

// maxRing is the number of apps of the largest ring that is found. It bounds the steps of a
// pass, and the passes after a change. The apps of a larger ring wait for each other without end,
// and no condition says so.
const maxRing = 32

// findCycle returns the names on the path from the app back to itself, both ends
// included; nil without a cycle. A cycle that the app leads to, but is not part of, does not count.
// Neither does a cycle of more than maxRing apps.
func findCycle(app *v1alpha1.DemoApp, lookup func(name string) *v1alpha1.DemoApp) []string {
	path := []string{app.Name}
	for at := app; at != nil && at.Spec.WaitFor != "" && len(path) <= maxRing; at = lookup(at.Spec.WaitFor) {
		path = append(path, at.Spec.WaitFor)
		if at.Spec.WaitFor == app.Name {
			return path
		}
	}
	return nil
}
