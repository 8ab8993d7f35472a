// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release/common"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

var (
	appsGroup  = appsv1.SchemeGroupVersion
	batchGroup = batchv1.SchemeGroupVersion
	rbacGroup  = rbacv1.SchemeGroupVersion
)

// takeover returns the desired release of the operator's owner.
func (e *engine) takeover(o *helmOperator, desired values) helm.Release {
	e.t.Helper()
	release := e.desired(readChart(e.t, "operand"), desired)
	release.Adopt, release.Takeover, release.Owner = false, true, &o.owner
	return release
}

// newOperated starts an operator with a release, and an engine.
func newOperated(t *testing.T, binary string, desired values, options ...func(*helm.Config)) (*helmOperator, *engine) {
	t.Helper()
	o := newHelmOperator(t, newNamespace(t), binary)
	if err := o.deploy(t.Context(), readChart(t, "operand"), desired); err != nil {
		t.Fatal(err)
	}
	o.awaitRollout(t)
	return o, newEngine(t, o.namespace, append(options, everywhere)...)
}

// awaitRollout waits until the Deployment's controller has acted on its newest generation.
func (o *helmOperator) awaitRollout(t *testing.T) {
	t.Helper()
	deployments := shared.Client.AppsV1().Deployments(o.namespace)
	cluster.Eventually(t.Context(), t, "rollout", func(ctx context.Context) (bool, error) {
		deployment, err := deployments.Get(ctx, releaseName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return deployment.Status.ObservedGeneration == deployment.Generation, nil
	})
}

// identities returns UID and generation of objects.
func identities(objects map[string]*unstructured.Unstructured) map[string]string {
	identities := map[string]string{}
	for name, object := range objects {
		identities[name] = fmt.Sprintf("%s generation %d", object.GetUID(), object.GetGeneration())
	}
	return identities
}

// assertSame asserts that the objects are the same as before, and that no workload was changed.
func assertSame(t *testing.T, before, after map[string]*unstructured.Unstructured) {
	t.Helper()
	if diff := cmp.Diff(identities(before), identities(after)); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
}

// sameGeneration makes assertSame ignore the generation of objects that the chart changes. The
// generation of a Deployment changes with its annotations. The ReplicaSets show whether pods are
// replaced.
func sameGeneration(before, after map[string]*unstructured.Unstructured, names ...string) {
	for _, name := range names {
		before[name].SetGeneration(after[name].GetGeneration())
	}
}

// TestTakeoverFromHelmOperator takes over a release whose chart and values stay the same: no object
// is replaced or deleted, and no pod restarts.
func TestTakeoverFromHelmOperator(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, binary string
		// prepare changes the objects that the operator left.
		prepare func(t *testing.T, o *helmOperator)
	}{
		{name: "operator-sdk", binary: "helm-operator"},
		{name: "an operator of its own binary", binary: "manager"},
		{name: "Helm before 3.2", binary: "helm-operator", prepare: removeMarks},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			desired := values{"outside": test.prepare == nil}
			o, e := newOperated(t, test.binary, desired)
			if test.prepare != nil {
				test.prepare(t, o)
			}
			before := o.live(t.Context(), t)
			release := e.takeover(o, desired)
			release.Consents = nil

			if err := e.converge(t.Context(), release); err != nil {
				t.Fatal(err)
			}

			o.awaitRollout(t)
			after := o.live(t.Context(), t)
			if test.prepare != nil {
				sameGeneration(before, after, "Deployment web") // Helm's marks are annotations.
			}
			assertSame(t, before, after)
			assertAnnotationsKept(t, before["ClusterRole "+o.namespace+"-"+releaseName], after["ClusterRole "+o.namespace+"-"+releaseName])
			if deleted := kindsOf(e.journal.take(), request.deleted); len(deleted) > 0 {
				t.Errorf("the engine deleted %v", deleted)
			}
			if newest := newestRelease(t.Context(), t, o.namespace); newest.Version != 2 || newest.Info.Status != common.StatusDeployed {
				t.Errorf("revision %d is %s", newest.Version, newest.Info.Status)
			}
			assertUnmanaged(t, after, test.binary)
			e.restart()
			e.assertAsDesired(release)
		})
	}
}

// assertAnnotationsKept asserts that an object outside the namespace keeps the annotations that
// name the owner.
func assertAnnotationsKept(t *testing.T, before, after *unstructured.Unstructured) {
	t.Helper()
	if before == nil {
		return
	}
	if diff := cmp.Diff(before.GetAnnotations(), after.GetAnnotations()); diff != "" {
		t.Errorf("annotations of %s (-before +after):\n%s", after.GetName(), diff)
	}
}

// assertUnmanaged asserts that no field of the release's objects is left to the binary.
func assertUnmanaged(t *testing.T, objects map[string]*unstructured.Unstructured, binary string) {
	t.Helper()
	for name, object := range objects {
		for _, entry := range object.GetManagedFields() {
			if entry.Manager == binary && object.GetKind() != "Job" {
				t.Errorf("%s: %s still has the fields %s", name, binary, entry.FieldsV1)
			}
		}
	}
}

// removeMarks removes Helm's marks, which Helm sets since 3.2.
func removeMarks(t *testing.T, o *helmOperator) {
	t.Helper()
	const patch = `{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}, "annotations": {
		"meta.helm.sh/release-name": null, "meta.helm.sh/release-namespace": null}}}`
	for _, object := range o.live(t.Context(), t) {
		if kind := object.GetKind(); kind != "ReplicaSet" && kind != "Job" {
			patchObject(t, object, patch, "helm-operator")
		}
	}
}

// patchObject changes an object under a field manager.
func patchObject(t *testing.T, object *unstructured.Unstructured, patch, manager string) {
	t.Helper()
	kind := object.GroupVersionKind()
	mapping, err := shared.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		t.Fatal(err)
	}
	_, err = shared.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()).
		Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTakeoverRemovesFormerFields takes over a release whose chart has lost fields and an object.
// They are removed, and later drift of fields that the operator owned is corrected.
func TestTakeoverRemovesFormerFields(t *testing.T) {
	t.Parallel()
	o, e := newOperated(t, "helm-operator", nil)
	before := o.live(t.Context(), t)
	release := e.takeover(o, values{"former": false})

	if err := e.converge(t.Context(), release); err != nil {
		t.Fatal(err)
	}

	o.awaitRollout(t)
	after := o.live(t.Context(), t)
	delete(before, "ConfigMap web-former")
	sameGeneration(before, after, "Service web", "Deployment web")
	assertSame(t, before, after)
	if _, found, _ := unstructured.NestedString(after["ConfigMap web"].Object, "data", "former"); found {
		t.Error("the ConfigMap still has the key that the chart lost")
	}
	if after["Deployment web"].GetAnnotations()["example.com/former"] != "" {
		t.Error("the Deployment still has the annotation that the chart lost")
	}
	if ports, _, _ := unstructured.NestedSlice(after["Service web"].Object, "spec", "ports"); len(ports) != 1 {
		t.Errorf("the Service has the ports %v", ports)
	}

	for _, manager := range []string{"helm-operator", otherManager} {
		patchObject(t, after["ConfigMap web"], fmt.Sprintf(`{"data": {"mode": %q}}`, manager), manager)
		e.await("drift by "+manager, func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) == 1 })
		if err := e.converge(t.Context(), release); err != nil {
			t.Fatal(err)
		}
		if mode, _, _ := unstructured.NestedString(o.live(t.Context(), t)["ConfigMap web"].Object, "data", "mode"); mode != "ascii" {
			t.Errorf("the ConfigMap has the mode %q", mode)
		}
	}
}

// TestTakeoverOfUnfinishedRelease takes over releases whose operator stopped in the middle of an
// operation. The engine waits for as long as that operation may still run.
func TestTakeoverOfUnfinishedRelease(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status common.Status
		// revisions is the number of revisions, waits whether the operation may still run, and
		// revision the revision that the takeover makes.
		revisions, revision int
		waits               bool
	}{
		{status: common.StatusPendingInstall, revisions: 1, revision: 1, waits: true},
		{status: common.StatusPendingUpgrade, revisions: 2, revision: 2, waits: true},
		{status: common.StatusPendingRollback, revisions: 3, revision: 3, waits: true},
		{status: common.StatusFailed, revisions: 1, revision: 2},
		{status: common.StatusFailed, revisions: 2, revision: 3},
		{status: common.StatusSuperseded, revisions: 1, revision: 2},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s in revision %d", test.status, test.revisions), func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(time.Now())
			o, e := newOperated(t, "helm-operator", nil, func(config *helm.Config) { config.Clock = clock })
			for range test.revisions - 1 {
				if err := o.deploy(t.Context(), readChart(t, "operand"), nil); err != nil {
					t.Fatal(err)
				}
			}
			o.setStatus(t, test.status)
			e.awaitRecord(test.revisions, test.status.String())
			clock.SetTime(time.Now())
			before := o.live(t.Context(), t)
			release := e.takeover(o, values{"former": false})

			err := e.pass(t.Context(), release)

			var busy *helm.BusyError
			if errors.As(err, &busy) != test.waits {
				t.Fatalf("%s because of %s: %v", e.last.Action, e.last.Cause, err)
			}
			if test.waits {
				if busy.RetryAfter <= 0 || busy.RetryAfter > timeout {
					t.Errorf("retry after %v", busy.RetryAfter)
				}
				assertSame(t, before, o.live(t.Context(), t))
				clock.SetTime(clock.Now().Add(busy.RetryAfter))
			}
			if err := e.converge(t.Context(), release); err != nil {
				t.Fatal(err)
			}
			o.awaitRollout(t)
			after := o.live(t.Context(), t)
			delete(before, "ConfigMap web-former")
			sameGeneration(before, after, "Service web", "Deployment web")
			before["Job hook-job"].SetUID(after["Job hook-job"].GetUID()) // An install that is repeated runs its hooks.
			assertSame(t, before, after)
			assertUnmanaged(t, after, "helm-operator")
			if newest := newestRelease(t.Context(), t, o.namespace); newest.Version != test.revision || newest.Info.Status != common.StatusDeployed {
				t.Errorf("revision %d is %s, want a deployed revision %d", newest.Version, newest.Info.Status, test.revision)
			}
		})
	}
}

// TestInterruptedTakeover kills the engine at each of its requests for a record or object. Another
// engine, without a baseline, completes the takeover.
func TestInterruptedTakeover(t *testing.T) {
	t.Parallel()
	const requests = 31
	for _, k := range interruptions(requests) {
		t.Run(fmt.Sprintf("at request %d", k), func(t *testing.T) {
			t.Parallel()
			var s saboteur
			o, e := newOperated(t, "helm-operator", nil, s.get)
			before := o.live(t.Context(), t)
			release := e.takeover(o, values{"former": false})
			s.arm(k)
			interrupted := e.converge(t.Context(), release)
			if !s.disarm() {
				t.Fatalf("there was no request %d: %v", k, interrupted)
			}
			e.baseline = helm.Baseline{}
			e.restart()

			err := e.converge(t.Context(), release)
			if err != nil {
				t.Fatalf("after %v: %v", interrupted, err)
			}
			o.awaitRollout(t)
			after := o.live(t.Context(), t)
			delete(before, "ConfigMap web-former")
			sameGeneration(before, after, "Service web", "Deployment web")
			assertSame(t, before, after)
			assertUnmanaged(t, after, "helm-operator")
			if newest := newestRelease(t.Context(), t, o.namespace); newest.Version != 2 || newest.Info.Status != common.StatusDeployed {
				t.Errorf("revision %d is %s", newest.Version, newest.Info.Status)
			}
		})
	}
}

// TestTakeoverOfAbandonedUninstall installs the release again whose uninstall an operator has begun. The
// objects that are left stay.
func TestTakeoverOfAbandonedUninstall(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o, e := newOperated(t, "helm-operator", nil, func(config *helm.Config) { config.Clock = clock })
	o.setStatus(t, common.StatusUninstalling)
	e.awaitRecord(1, common.StatusUninstalling.String())
	release := e.takeover(o, nil)
	var busy *helm.BusyError
	if err := e.pass(t.Context(), release); !errors.As(err, &busy) {
		t.Fatalf("%s because of %s: %v", e.last.Action, e.last.Cause, err)
	}
	clock.SetTime(clock.Now().Add(busy.RetryAfter))

	err := e.converge(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	if newest := newestRelease(t.Context(), t, o.namespace); newest.Version != 2 || newest.Info.Status != common.StatusDeployed {
		t.Errorf("revision %d is %s", newest.Version, newest.Info.Status)
	}
}

// TestUninstallOfOperatedRelease uninstalls a release that was never taken over, because its owner
// was deleted while no operator ran.
func TestUninstallOfOperatedRelease(t *testing.T) {
	t.Parallel()
	o, e := newOperated(t, "helm-operator", nil)

	_, err := e.Uninstall(t.Context(), e.takeover(o, nil), helm.Baseline{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "removal of all objects", func(ctx context.Context) (bool, error) {
		left := o.live(ctx, t)
		delete(left, "Job hook-job") // Helm keeps a hook without a deletion policy.
		return len(left) == 0, fmt.Errorf("%v are left", slices.Sorted(maps.Keys(left)))
	})
	if newest := newestRelease(t.Context(), t, o.namespace); newest != nil {
		t.Errorf("revision %d is left", newest.Version)
	}
}

// TestHelmOperatorGoesOn hands a release back to its operator, and to the engine again. Each
// upgrades it, and `helm rollback` and `helm history` work in between.
func TestHelmOperatorGoesOn(t *testing.T) {
	t.Parallel()
	for name, clientSide := range map[string]bool{"client-side apply": true, "server-side apply": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, e := newOperated(t, "helm-operator", nil)
			before := o.live(t.Context(), t)
			release := e.takeover(o, nil)
			if err := e.converge(t.Context(), release); err != nil {
				t.Fatal(err)
			}
			o.clientSide = clientSide

			if err := o.deploy(t.Context(), readChart(t, "operand"), values{"former": false}); err != nil {
				t.Fatalf("upgrade by the operator: %v", err)
			}
			e.awaitRecord(3, common.StatusDeployed.String())
			after := o.live(t.Context(), t)
			if after["ConfigMap web-former"] != nil {
				t.Error("the operator's upgrade kept an object that the chart lost")
			}
			if err := o.rollback(t.Context(), 2); err != nil {
				t.Fatalf("roll back to the engine's revision: %v", err)
			}
			e.awaitRecord(4, common.StatusDeployed.String())
			if revisions, err := action.NewHistory(o.configuration()).Run(releaseName); err != nil || len(revisions) != 4 {
				t.Errorf("the history has %d revisions: %v", len(revisions), err)
			}
			if err := e.converge(t.Context(), release); err != nil {
				t.Fatalf("take over again: %v", err)
			}
			o.awaitRollout(t)
			after = o.live(t.Context(), t)
			before["ConfigMap web-former"] = after["ConfigMap web-former"] // It was deleted in between.
			sameGeneration(before, after, "Service web", "Deployment web")
			assertSame(t, before, after)
			patchObject(t, after["ConfigMap web"], `{"data": {"mode": null}}`, otherManager)
			e.await("drift", func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) == 1 })
		})
	}
}
