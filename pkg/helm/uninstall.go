// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"
)

// actionUninstall names in logs and metrics what Decide never chooses.
const actionUninstall Action = "Uninstall"

// Uninstall removes the release's objects and all its records; hooks run.
// Objects with helm.sh/resource-policy: keep, and those that no longer belong to
// the release, stay. It is no error when there is nothing to uninstall.
func (e *Engine) Uninstall(ctx context.Context, name cache.ObjectName, baseline Baseline) error {
	return e.UninstallWithin(ctx, name, baseline, 0)
}

// UninstallWithin is Uninstall with a timeout of the release's own; 0 means
// [Config.Timeout].
func (e *Engine) UninstallWithin(ctx context.Context, name cache.ObjectName, baseline Baseline, timeout time.Duration) error {
	defer e.locks.lock(name)()
	if e.records.latest(name) == nil && len(baseline.Inventory) == 0 && !e.attempts.mayHaveRecord(name) {
		e.Forget(name)
		return nil
	}
	release := Release{Namespace: name.Namespace, Name: name.Name, Timeout: timeout}
	_, err := e.measured(ctx, release, Decision{Action: actionUninstall}, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
		return nil, o.uninstall(baseline)
	})
	if err == nil {
		e.Forget(name)
	}
	return err
}

func (o *operation) uninstall(baseline Baseline) error {
	newest := o.store.newest()
	if newest == nil {
		if err := o.removeInventory(baseline); err != nil || !o.engine.attempts.mayHaveRecord(o.release) {
			return err
		}
		return o.store.secrets.purge(context.WithoutCancel(o.ctx), o.release, nil)
	}
	cfg, err := o.configuration()
	if err != nil {
		return err
	}
	rls, err := o.store.read(newest.Revision)
	if err == nil {
		err = o.removeLeftovers(rls, true)
	}
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return err
	}
	return o.runUninstall(cfg)
}

func (o *operation) runUninstall(cfg *action.Configuration) error {
	uninstall := action.NewUninstall(cfg)
	uninstall.IgnoreNotFound = true
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	uninstall.DeletionPropagation = "background"
	uninstall.Timeout = o.limits.timeout
	// Helm asks whose each object is before it deletes it. Without a client it
	// leaves that to Delete, which mostly knows without asking.
	o.existence, o.store.purging = nil, true
	_, err := uninstall.Run(o.release.Name)
	o.existence, o.store.purging = absent, false
	switch {
	case o.failure != nil:
		return o.failure
	case o.store.failure != nil:
		return o.store.failure
	default:
		return err
	}
}

// removeInventory deletes what is left of a release whose records are gone.
func (o *operation) removeInventory(baseline Baseline) error {
	for _, entry := range baseline.Inventory {
		mapping, err := o.engine.mapper.mapping(entry.groupVersionKind())
		if meta.IsNoMatchError(err) {
			continue // It went with its kind.
		}
		if err != nil {
			return fmt.Errorf("delete %s: %w", entry, err)
		}
		info := &resource.Info{Mapping: mapping, Namespace: entry.Namespace, Name: entry.Name}
		if err := o.remove(info, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return nil
}
