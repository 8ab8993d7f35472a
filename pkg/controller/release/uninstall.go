// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/event"
	"github.com/example/demoapp-controller/pkg/controller/status"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Uninstall removes the release of an object that is being deleted, and returns the event
// to emit. A release with another owner is not changed. Uninstall is idempotent.
func (l *Lifecycle) Uninstall(
	ctx context.Context, release helm.Release, s releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy,
) (event.Event, error) {
	ctx = withWait(ctx)
	release.Values, release.Adopt = nil, false
	err := l.engine.Uninstall(ctx, release, Baseline(s, policy, release.Scope))
	var conflict *helm.OwnershipConflictError
	if errors.As(err, &conflict) && conflict.OfRelease() {
		return event.Normal("LeftAlone", "Delete", fmt.Sprintf("%v, and was left alone", conflict)), nil
	}
	return event.Normal("Uninstalled", "Delete", fmt.Sprintf("Uninstalled release %s", release.Name)), err
}

// UninstallAndAwait is Uninstall for an object whose deletion waits until the objects of its
// release are gone. It also returns the objects that still exist. The object is queued again
// when one of them disappears. Until none remains, the status has to keep its inventory.
func (l *Lifecycle) UninstallAndAwait(
	ctx context.Context, release helm.Release, s releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy,
) (done event.Event, remaining []helm.ObjectReference, err error) {
	release.AwaitRemoval = true
	if done, err = l.Uninstall(ctx, release, s, policy); err != nil {
		return done, nil, err
	}
	remaining, err = l.engine.Remaining(ctx, release, Baseline(s, policy, release.Scope))
	return done, remaining, err
}

// ReportUninstalled clears the uninstalled release from the status. The object still exists,
// because other clients' finalizers hold it. The history stays in the status.
func ReportUninstalled(s *releasev1alpha1.ReleaseStatus, conditions status.Editor, release, finalizers string) {
	s.DeployedRelease, s.Inventory, s.AppliedManifestHash = nil, nil, ""
	s.LastGoodRevision, s.Failures = 0, nil
	s.Replicas, s.ReadyReplicas, s.Selector = 0, 0, ""
	conditions.Remove(releasev1alpha1.ConditionDrifted, releasev1alpha1.ConditionFailed, releasev1alpha1.ConditionRemediated)
	message := fmt.Sprintf("Release %s is uninstalled; the deletion waits for finalizers of others: %s", release, finalizers)
	conditions.Set(releasev1alpha1.ConditionDeployed, metav1.ConditionFalse, releasev1alpha1.ReasonUninstalled, message)
	conditions.MarkReconciling(releasev1alpha1.ReasonUninstalled, message)
}
