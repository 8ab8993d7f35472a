// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/example/demoapp-controller/pkg/helm/guard"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// actionLetGo names the letting go of a release in logs and metrics. Decide never chooses it.
const actionLetGo Action = "LetGo"

// LetGo gives up a release whose owner is deleted with the propagation policy Orphan. Objects, hooks
// and records stay. The objects lose the owner, as far as the garbage collector has not removed it,
// and the newest record says that the release was let go. An owner that is created later with the
// same kind and name continues the release, and other owners may adopt it. LetGo uses the namespace,
// name, owner, scope, timeout and service account of the release. It is idempotent. A release of
// another owner is not changed, and the error is an [OwnershipConflictError] about a Release.
func (e *Engine) LetGo(ctx context.Context, release Release, baseline Baseline) error {
	name := release.Key()
	defer e.locks.lock(name)()
	if e.records.Latest(name) == nil && len(baseline.Inventory) == 0 {
		e.Forget(name)
		return nil
	}
	_, err := e.measured(ctx, release, Decision{Action: actionLetGo}, baseline, func(o *operation) (*Deployed, error) {
		return nil, o.letGo()
	})
	if err == nil {
		e.Forget(name)
	}
	return err
}

func (o *operation) letGo() error {
	objects, err := o.inventoried()
	if err != nil {
		return err
	}
	newest := o.store.newest()
	if newest != nil {
		// The last attempt may have failed before the baseline knew its objects.
		rls, err := o.store.verified(newest.Revision)
		if err != nil && !errors.Is(err, errUnverified) && !errors.Is(err, driver.ErrReleaseNotFound) {
			return fmt.Errorf("read revision %d: %w", newest.Revision, err)
		}
		if err == nil {
			attempted, err := o.former(rls.Manifest)
			if err != nil {
				return err
			}
			objects = append(objects, attempted.Difference(objects)...)
			for _, hook := range rls.Hooks {
				if isTest(hook) {
					continue // The engine does not run tests, so the operator may not read their objects.
				}
				if made, err := o.former(hook.Manifest); err == nil { // A hook that cannot be read was not created.
					objects = append(objects, made...)
				}
			}
		}
	}
	for _, info := range objects {
		if !o.bounds.Allow(info.Namespace) {
			continue
		}
		// The garbage collector updates the objects at the same time.
		if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return o.disown(info) }); err != nil {
			return err
		}
	}
	if newest == nil || newest.Owner.UID == record.Released {
		return nil
	}
	return o.store.letGo(newest)
}

// letGo marks the newest record as let go. It keeps the kind and name of the owner, see
// [Release.owns].
func (s *store) letGo(newest *record.Record) error {
	key := newest.Secret.Name
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := s.secrets.get(key)
		if err != nil {
			return err
		}
		secret.Labels[record.OwnerLabel] = record.Released
		delete(secret.Labels, record.OwnerGenerationLabel)
		_, err = s.secrets.update(secret)
		return err
	})
	if ssa.IsGone(err, key) {
		return nil
	}
	return s.note(key, err)
}

// Orphaned reports whether the owner of a release was deleted with the propagation policy Orphan,
// although its finalizers no longer show it. The garbage collector then has removed the owner
// reference of all objects. So no object of the baseline still has the reference, and at least one
// has lost it. The owner references of objects in other namespaces, of cluster-scoped objects and of
// kept objects say nothing, because they never had one. A release that was let go is orphaned, too.
//
// Orphaned sends a request for each object until one has the owner. Objects that may not be read do
// not count.
func (e *Engine) Orphaned(ctx context.Context, release Release, baseline Baseline) (bool, error) {
	if release.Owner == nil {
		return false, nil
	}
	if newest := e.records.Latest(release.Key()); newest != nil && newest.Owner.UID == record.Released {
		return true, nil
	}
	within, err := e.boundsOf(release)
	if err != nil {
		return false, err
	}
	ctx = guard.With(ctx, within)
	inventory := slices.DeleteFunc(slices.Clone(baseline.Inventory), func(entry InventoryEntry) bool {
		return entry.Namespace != release.Namespace || !within.Allow(entry.Namespace) || !manifest.IsName(entry.Name)
	})
	mappings, silent := e.mappings(inventory)
	for _, kind := range kindsOf(silent) {
		return false, fmt.Errorf("look for the objects of release %s: %w", release.Key(), kind.Err)
	}
	lost := false
	for _, entry := range inventory {
		mapping, served := mappings[entry.GroupVersionKind()]
		if !served {
			continue
		}
		live, err := e.metadata.Resource(mapping.Resource).Namespace(entry.Namespace).Get(ctx, entry.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			continue
		case err != nil:
			return false, fmt.Errorf("look for the owner of %s: %w", entry, err)
		case live.UID != entry.UID || live.DeletionTimestamp != nil:
			continue
		case hasOwner(live, release.Owner):
			return false, nil
		case metav1.GetControllerOfNoCopy(live) == nil && !manifest.IsKept(live) && !ssa.Matches(entry.Digest, fingerprint(ssa.ManagedFields(live))):
			lost = true
		}
	}
	return lost, nil
}

func hasOwner(object metav1.Object, owner *metav1.OwnerReference) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool { return reference.UID == owner.UID })
}
