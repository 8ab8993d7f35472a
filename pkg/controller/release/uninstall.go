// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Deletion is the pass over an object that is being deleted: a [kind.Pass].
type Deletion interface {
	Key() cache.ObjectName
	Conditions() status.Editor
	Commit(ctx context.Context) error
}

// Uninstall removes the release of an object that is being deleted, and returns the event
// to emit, and the objects that it left, which the event names. A release with another owner is not changed. Uninstall is idempotent. Before it waits,
// for example for a hook, it writes into the object's status that the deletion takes time, unless
// the status has the failure of an earlier attempt.
func (l *Lifecycle) Uninstall(
	ctx context.Context, p Deletion, release helm.Release, s releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy,
) (done event.Event, left []helm.Leftover, err error) {
	l.rollouts.Forget(p.Key())
	ctx = helm.WithWait(ctx, func(objects string) (func(), error) {
		end, err := controller.ReleaseWorker(ctx)
		// A retry keeps the cause of the last failure.
		ready := meta.FindStatusCondition(s.Conditions, apimeta.ConditionReady)
		if err == nil && (ready == nil || ready.Reason != releasev1alpha1.ReasonUninstallFailed) {
			reportUninstalling(ctx, p, release.Name, objects)
		}
		return end, err
	})
	release.Values, release.Adopt = nil, false
	left, err = l.engine.Uninstall(ctx, release, Baseline(s, policy, release.Scope))
	var conflict *helm.OwnershipConflictError
	if errors.As(err, &conflict) && conflict.OfRelease() {
		return leftAlone(conflict), nil, nil
	}
	return event.Normal("Uninstalled", "Delete", "Uninstalled release "+release.Name+leftBehind(left)), left, err
}

// LetGo gives up the release of an object that is deleted with the propagation policy Orphan, and
// returns the event to emit. See [helm.Engine.LetGo]. A release with another owner is not changed.
func (l *Lifecycle) LetGo(
	ctx context.Context, release helm.Release, s releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy,
) (event.Event, error) {
	release.Values, release.Adopt = nil, false
	err := l.engine.LetGo(ctx, release, Baseline(s, policy, release.Scope))
	var conflict *helm.OwnershipConflictError
	if errors.As(err, &conflict) && conflict.OfRelease() {
		return leftAlone(conflict), nil
	}
	return event.Normal(apimeta.ReasonOrphaned, "Delete", fmt.Sprintf(
		"Kept release %s and its objects, because the propagation policy of the deletion is Orphan", release.Name)), err
}

// Orphaned reports whether the objects of the release show that its owner was deleted with the
// propagation policy Orphan. See [helm.Engine.Orphaned].
func (l *Lifecycle) Orphaned(
	ctx context.Context, release helm.Release, s releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy,
) (bool, error) {
	return l.engine.Orphaned(ctx, release, Baseline(s, policy, release.Scope))
}

func leftAlone(conflict *helm.OwnershipConflictError) event.Event {
	return event.Normal("LeftAlone", "Delete", fmt.Sprintf("%v, and was left alone", conflict))
}

// leftBehind returns what an uninstall left, as the end of a message.
func leftBehind(left []helm.Leftover) string {
	if len(left) == 0 {
		return ""
	}
	return "; left behind: " + helm.Enumerate(left)
}

// reportUninstalling writes what an uninstall waits for. A failed write does not end the uninstall,
// because its hooks would run again.
func reportUninstalling(ctx context.Context, p Deletion, release, objects string) {
	p.Conditions().MarkReconciling(apimeta.ReasonDeleting, fmt.Sprintf("The uninstall of release %s waits for %s", release, objects))
	if err := p.Commit(ctx); err != nil {
		klog.FromContext(ctx).V(1).Info("Could not report that the deletion waits", "err", err)
	}
}

// UninstallAndAwait is Uninstall for an object whose deletion waits until the objects of its
// release are gone. It also returns the objects that still exist. The object is queued again
// when one of them disappears. Until none remains, the status has to keep its inventory.
func (l *Lifecycle) UninstallAndAwait(
	ctx context.Context, p Deletion, release helm.Release, s releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy,
) (done event.Event, remaining []helm.Leftover, err error) {
	release.AwaitRemoval = true
	if done, _, err = l.Uninstall(ctx, p, release, s, policy); err != nil {
		return done, nil, err
	}
	remaining, err = l.engine.Remaining(ctx, release, Baseline(s, policy, release.Scope))
	return done, remaining, err
}

// reportUninstalled clears the uninstalled release from the status. The object still exists,
// because other clients' finalizers hold it. done is the event of the uninstall. The history stays in
// the status.
func reportUninstalled(s *releasev1alpha1.ReleaseStatus, conditions status.Editor, done event.Event, finalizers string) {
	s.DeployedRelease, s.Inventory, s.AppliedManifestHash = nil, nil, ""
	s.LastGoodRevision, s.Failures = 0, nil
	s.Replicas, s.ReadyReplicas, s.Selector = 0, 0, ""
	conditions.Remove(releasev1alpha1.ConditionDrifted, releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionRemediated,
		releasev1alpha1.ConditionAdjusted)
	message := done.Note + "; the deletion waits for finalizers of others: " + finalizers
	conditions.Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, releasev1alpha1.ReasonUninstalled, message)
	conditions.MarkReconciling(releasev1alpha1.ReasonUninstalled, message)
}
