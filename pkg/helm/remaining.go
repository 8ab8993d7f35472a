// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/overlay"
)

// Remaining returns the objects of the baseline that [Engine.Uninstall] deleted and that still
// exist, for instance because of the finalizers that it names. It does not return objects that Uninstall did
// not delete. It sends no request, except to watch further kinds. It uses the namespace, name and
// scope of the release.
//
// If Uninstall was called with [Release.AwaitRemoval], subscribers are notified when one of the
// objects disappears. [Engine.Forget] ends these notifications. An object that lost Helm's label
// counts as gone. Subscribers are not notified of an object that lost Helm's annotations.
func (e *Engine) Remaining(ctx context.Context, release Release, baseline Baseline) ([]Leftover, error) {
	within, err := e.boundsOf(release)
	if err != nil {
		return nil, err
	}
	inventory := slices.DeleteFunc(slices.Clone(baseline.Inventory), func(entry InventoryEntry) bool { return !within.Allow(entry.Namespace) })
	mappings, unobserved, err := e.watchKinds(ctx, release.Key(), inventory)
	for _, kind := range kindsOf(unobserved) {
		err = errors.Join(err, fmt.Errorf("watch %s: %w", kind.Kind, kind.Err))
	}
	if err != nil {
		return nil, fmt.Errorf("look for the objects of release %s: %w", release.Key(), err)
	}
	var remaining []Leftover
	for _, entry := range inventory {
		mapping, served := mappings[entry.GroupVersionKind()]
		if !served {
			continue
		}
		if got := leaving(e.watcher.View(mapping, entry.Namespace), entry); got != nil {
			remaining = append(remaining, Leftover{Object: entry.ObjectReference, Reason: waitsFor(got.Finalizers)})
		}
	}
	return remaining, nil
}

// leaving returns the object of the entry if it exists and is being deleted, or nil.
func leaving(view *overlay.View[*live.Object], entry InventoryEntry) *live.Object {
	got, ok := view.Leaving(entry.Namespace, entry.Name)
	if !ok {
		got, ok = view.Get(entry.Namespace, entry.Name)
		ok = ok && got.DeletionTimestamp != nil
	}
	if !ok || got.UID != entry.UID {
		return nil
	}
	return got
}
