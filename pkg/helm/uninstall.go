// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// actionUninstall names an uninstall in logs and metrics. Decide never chooses it.
const actionUninstall Action = "Uninstall"

// Uninstall removes the release's objects and all its records, and runs hooks. It uses the
// namespace, name, owner, chart, scope, timeout, service account and uninstall options of the
// release, and AwaitRemoval. Objects with helm.sh/resource-policy: keep, and objects of another
// owner, stay. It returns no error when there is nothing to uninstall. A release of another owner
// is not changed, and the error is an [OwnershipConflictError] about a Release.
//
// Custom resources are deleted before workloads, whose controllers may have to remove their
// finalizers. Uninstall waits for them, for at most half of the release's timeout.
//
// Uninstall returns the objects that it left in the cluster, as far as they are known: also objects
// that hooks created, CRDs under crds/, and the volumes of StatefulSets.
//
// If the record of the newest revision is not verified, its hooks do not run. Uninstall
// then removes the objects of the baseline, and objects in the record that have the
// release's marks.
func (e *Engine) Uninstall(ctx context.Context, release Release, baseline Baseline) ([]Leftover, error) {
	name := release.Key()
	defer e.locks.lock(name)()
	hasRecord := e.records.Latest(name) != nil || e.attempts.mayHaveRecord(name)
	if !hasRecord && release.AwaitRemoval && e.watcher.Awaits(name) {
		return e.left.of(name), nil // The release is uninstalled, and the caller waits for its objects.
	}
	if !hasRecord && len(baseline.Inventory) == 0 {
		e.Forget(name)
		return nil, nil
	}
	var left []Leftover
	_, err := e.measured(ctx, release, Decision{Action: actionUninstall}, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
		err := o.uninstall(release)
		left = o.leftovers
		return nil, err
	})
	if err == nil && release.AwaitRemoval {
		e.forgetRecords(name)
		e.watcher.Await(name)
		e.left.set(name, left)
		return left, nil
	}
	if err == nil {
		e.Forget(name) // The state of a release of another owner is kept.
	}
	return left, err
}

func (o *operation) uninstall(release Release) error {
	newest := o.store.newest()
	if newest == nil {
		if err := o.removeInventory(); err != nil || !o.engine.attempts.mayHaveRecord(o.release) {
			return err
		}
		return o.store.secrets.purge(nil)
	}
	o.store.last = newest.Revision
	cfg, err := o.configuration()
	if err != nil {
		return err
	}
	rls, err := o.store.body(newest)
	if err == nil {
		err = o.note(o.disownKept(rls.Manifest))
	}
	if err == nil {
		err = o.removeLeftovers(rls, true)
	}
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return err
	}
	verified := err == nil
	if err := o.runUninstall(cfg, release.Uninstall); err != nil {
		return err
	}
	if verified {
		o.leaveOthers(rls)
		o.leaveCRDs(release.Chart)
	}
	return nil
}

func (o *operation) runUninstall(cfg *action.Configuration, options ActionOptions) error {
	o.phase = "delete"
	uninstall := action.NewUninstall(cfg)
	uninstall.IgnoreNotFound = true
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	uninstall.DeletionPropagation = "background"
	uninstall.Timeout = o.limits.timeout
	uninstall.DisableHooks = options.DisableHooks
	// Helm describes only records that it keeps, and none is kept.
	o.store.uninstalling = options.description(MaxDescription)
	// Helm reads the owner of each object before the deletion. Without a client, Helm leaves this
	// check to Delete, which usually knows the owner.
	o.existence, o.store.purging = nil, true
	_, err := uninstall.Run(o.release.Name)
	err = cmp.Or(o.failure, o.store.failure, err)
	if err != nil {
		o.store.writeUninstalling()
	}
	o.existence, o.store.purging = absent, false
	return err
}

// removeInventory removes the objects of a release whose records are gone.
func (o *operation) removeInventory() error {
	listed, err := o.inventoried()
	if err != nil {
		return err
	}
	_, errs := o.removeAll(inUninstallOrder(listed), o.removeInBackground)
	return joined(errs)
}

// inventoried returns the objects of the baseline's inventory, without their content. It omits
// kinds that are not served in any version, because their objects cannot be found.
func (o *operation) inventoried() (kube.ResourceList, error) {
	var list kube.ResourceList
	for _, entry := range o.baseline.Inventory {
		if !manifest.IsName(entry.Name) {
			continue
		}
		mapping, err := o.engine.mapper.MappingInAnyVersion(entry.GroupVersionKind())
		if meta.IsNoMatchError(err) {
			o.leave(entry.ObjectReference, notServed)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", entry, err)
		}
		if namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace; namespaced != (entry.Namespace != "") {
			continue // The CRD was created again with another scope. The objects went with the former CRD.
		}
		list.Append(&resource.Info{Mapping: mapping, Namespace: entry.Namespace, Name: entry.Name})
	}
	return list, nil
}
