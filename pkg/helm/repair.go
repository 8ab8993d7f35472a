// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/record"
)

// repair applies the drifted objects of the deployed manifest again, or all objects when
// the baseline is not known.
func (o *operation) repair(decision Decision, baseline Baseline) (*Deployed, error) {
	current := o.store.newest()
	if decision.Action == ActionRepair {
		current = record.Deployed(o.store.history(), baseline.Revision, o.store.digests)
	}
	if current == nil {
		return nil, fmt.Errorf("release %s: %w: the release has changed since the decision", o.release, ErrNotSynced)
	}
	rls, err := o.store.verified(current.Revision)
	if err != nil {
		return nil, fmt.Errorf("read the deployed release: %w", err)
	}
	resources, unserved := o.build(rls.Manifest)
	if unserved != nil && !isExcluded(unserved) {
		return nil, unserved
	}
	if err := errors.Join(o.claimAll(resources), o.store.supersede()); err != nil {
		return nil, err
	}
	// An object that cannot be repaired does not stop the repair of the remaining objects.
	errs := []error{unserved}
	for _, info := range resources {
		errs = append(errs, o.repairObject(info, decision))
	}
	err = errors.Join(errs...)
	if err != nil {
		if decision.Action != ActionRepair {
			return nil, err
		}
		o.inventory = mergeInventory(baseline.Inventory, o.inventory)
	}
	deployed := o.deployed(rls)
	deployed.Uncorrected = !o.corrected
	return deployed, err
}

// mergeInventory returns the known inventory with the repaired entries.
func mergeInventory(known, repaired []InventoryEntry) []InventoryEntry {
	merged := slices.Clone(known)
	for i, entry := range merged {
		at := slices.IndexFunc(repaired, func(r InventoryEntry) bool { return r.Identity() == entry.Identity() })
		if at >= 0 {
			merged[i] = repaired[at]
		}
	}
	return merged
}

// repairObject repairs one object if it has drifted.
func (o *operation) repairObject(info *resource.Info, decision Decision) error {
	object, err := content(info)
	if err != nil {
		return err
	}
	id := identityOf(info)
	if decision.Action == ActionRepair && !slices.ContainsFunc(decision.Drifts, func(drift Drift) bool { return drift.Object.Identity() == id }) {
		if entry, ok := o.known[id]; ok {
			o.inventory = append(o.inventory, entry)
			return nil
		}
	}
	if isForeignOnly(decision.Drifts, id) {
		o.corrected = true
		return o.repairForeign(info, object, false)
	}
	before, _ := o.observed(info)
	result, err := o.put(info, object)
	if err != nil {
		return err
	}
	// An apply that changes nothing makes no new version of the object.
	o.corrected = o.corrected || before == nil || before.ResourceVersion != result.GetResourceVersion()
	if slices.ContainsFunc(decision.Drifts, func(drift Drift) bool { return drift.Object.Identity() == id && drift.Kind == DriftForeign }) {
		return o.repairForeign(info, object, true)
	}
	o.record(info, result)
	return nil
}

// isForeignOnly reports whether an object drifted only by fields that other clients added.
func isForeignOnly(drifts []Drift, object Identity) bool {
	foreign := false
	for _, drift := range drifts {
		if drift.Object.Identity() == object {
			foreign = drift.Kind == DriftForeign
			if !foreign {
				return false
			}
		}
	}
	return foreign
}
