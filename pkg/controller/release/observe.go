// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Observer is the part of the engine that observes and decides without requests.
type Observer interface {
	Observe(ctx context.Context, release cache.ObjectName, baseline helm.Baseline) (helm.Snapshot, error)
	Decide(release helm.Release, observed helm.Snapshot) (helm.Decision, error)
}

// Request says which release to observe, and its desired state.
type Request struct {
	// Key is the release's namespace and name.
	Key cache.ObjectName
	// Desired is the desired release; nil if it is unknown because an input is missing.
	Desired *helm.Release
	// Baseline is the recorded state of the last success.
	Baseline helm.Baseline
}

// ErrNotObserved means that a release could not be observed, so nothing was attempted.
var ErrNotObserved = errors.New("look at release")

// Observe observes the release and decides what to do about it. It sends no request. The
// error wraps ErrNotObserved if the release cannot be observed, and helm.ErrNotSynced if a
// cache is not synced yet. It is terminal if the values are invalid.
func Observe(ctx context.Context, engine Observer, request Request) (Plan, error) {
	observed, err := engine.Observe(ctx, request.Key, request.Baseline)
	if err != nil {
		return Plan{}, fmt.Errorf("%w %s: %w", ErrNotObserved, request.Key, err)
	}
	if request.Desired == nil {
		return newPlan(observed, helm.Decision{}, false), nil
	}
	observed = request.Desired.Recognize(observed)
	next, err := engine.Decide(*request.Desired, observed)
	if err != nil {
		return Plan{}, fmt.Errorf("decide on release %s: %w", request.Key, err)
	}
	return newPlan(observed, next, true), nil
}

// observe returns the plan for the facts, and updates the trusted revisions in the
// status.
func (l *Lifecycle) observe(ctx context.Context, s *subject, f Facts) (Plan, error) {
	request := Request{Key: f.release(), Baseline: Baseline(*s.status, f.Desired.Policy, f.Desired.Release.Scope)}
	if f.Desired.Known {
		request.Desired = &f.Desired.Release
	}
	plan, err := Observe(ctx, l.engine, request)
	if err != nil {
		return Plan{}, err
	}
	if f.Desired.Known && plan.Next.Action != helm.ActionRefuse || plan.Observed.BaselineKnown {
		l.releases.Set(f.Key, f.release())
	}
	s.status.Revisions = revisionsOf(plan.Observed)
	for _, completed := range plan.Observed.Completed {
		if entry := inventoryEntry(s.status.Inventory, completed.Identity()); entry != nil {
			entry.Digest, entry.Ended = completed.Digest, string(completed.Ended)
		}
	}
	if f.ForceAt != "" && s.status.LastHandledForceAt != f.ForceAt {
		plan = plan.force()
	}
	return plan, nil
}

// Baseline returns the recorded state of the last success.
func Baseline(s releasev1alpha1.ReleaseStatus, policy releasev1alpha1.ReleasePolicy, scope helm.Scope) helm.Baseline {
	baseline := helm.Baseline{Scope: scope}
	for _, entry := range s.Revisions {
		baseline.Revisions = append(baseline.Revisions, record.Digest{Revision: int(entry.Revision), Digest: entry.Digest})
	}
	if s.DeployedRelease == nil {
		return baseline
	}
	baseline.Revision = int(s.DeployedRelease.Revision)
	baseline.Inventory = make([]helm.InventoryEntry, 0, len(s.Inventory))
	baseline.RemoveForeign, baseline.Ignore = removesForeign(policy), IgnoreRules(policy)
	if len(s.Revisions) == 0 && s.AppliedManifestHash != "" {
		// An operator without revision digests wrote the status.
		baseline.Revisions = []record.Digest{{Revision: baseline.Revision, Digest: record.ManifestDigest(s.AppliedManifestHash)}}
	}
	for _, entry := range s.Inventory {
		baseline.Inventory = append(baseline.Inventory, helm.InventoryEntry{
			ObjectReference: referenceOf(entry), UID: entry.UID, Digest: entry.Digest, Ended: helm.End(entry.Ended),
		})
	}
	return baseline
}

func referenceOf(entry releasev1alpha1.InventoryEntry) helm.ObjectReference {
	return helm.ObjectReference{APIVersion: entry.APIVersion, Kind: entry.Kind, Namespace: entry.Namespace, Name: entry.Name}
}

// revisionsOf returns the revisions whose records the operator trusts.
func revisionsOf(observed helm.Snapshot) []releasev1alpha1.RevisionDigest {
	var revisions []releasev1alpha1.RevisionDigest
	for _, entry := range observed.Revisions {
		revisions = append(revisions, releasev1alpha1.RevisionDigest{Revision: int64(entry.Revision), Digest: entry.Digest})
	}
	return revisions
}

func inventoryOf(deployed *helm.Deployed) []releasev1alpha1.InventoryEntry {
	inventory := make([]releasev1alpha1.InventoryEntry, 0, len(deployed.Inventory))
	for _, entry := range deployed.Inventory {
		inventory = append(inventory, releasev1alpha1.InventoryEntry{
			APIVersion: entry.APIVersion, Kind: entry.Kind, Namespace: entry.Namespace, Name: entry.Name,
			UID: entry.UID, Digest: entry.Digest, Ended: string(entry.Ended),
		})
	}
	return inventory
}
