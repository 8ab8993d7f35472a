// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/example/demoapp-controller/pkg/ssa"
)

// FieldManager is the field manager of the engine's applies. The helm command uses the same field
// manager, so both share the ownership of fields.
const FieldManager = "helm"

// DriftKind describes how an object differs from its baseline.
type DriftKind string

// The kinds of drift.
const (
	// DriftMissing: the object is gone, or lost the label by which the engine watches it.
	DriftMissing DriftKind = "Missing"
	// DriftReplaced: another object has taken its name.
	DriftReplaced DriftKind = "Replaced"
	// DriftChanged: another client changed or removed a field that the engine owns.
	DriftChanged DriftKind = "Changed"
	// DriftForeign: another client added fields, and the [Baseline] requires their removal.
	DriftForeign DriftKind = "Foreign"
)

// Drift is an object of a release that differs from the engine's last apply.
type Drift struct {
	Object ObjectReference
	Kind   DriftKind
	// Unserved means that the object is missing because the API server no longer serves its kind.
	// The object cannot be repaired before the kind is served again.
	Unserved bool
}

// String returns the object and the kind of its drift.
func (d Drift) String() string { return d.Object.String() + " " + string(d.Kind) }

// compare returns how the observed object differs from the baseline. An empty kind means no drift.
// doubted means that another client may have changed the object without a new fingerprint, see
// [ssa.Trace.MayHide].
func compare(want InventoryEntry, got *observed, doubted bool) DriftKind {
	switch {
	case got == nil:
		return DriftMissing
	case got.UID != want.UID:
		return DriftReplaced
	case doubted, !ssa.Matches(want.Digest, got.trace.Fingerprint):
		return DriftChanged
	default:
		return ""
	}
}

// fingerprint identifies the state in which the engine left an object.
func fingerprint(managed []metav1.ManagedFieldsEntry) string {
	return ssa.Fingerprint(managed, FieldManager)
}

// lostFields returns the fields that the engine would own after an apply, but does not own in the
// live object.
func lostFields(applied, live metav1.Object) (*fieldpath.Set, error) {
	var sets [2]*fieldpath.Set
	for i, object := range []metav1.Object{applied, live} {
		sets[i] = fieldpath.NewSet()
		owned := ssa.OwnedFields(ssa.ManagedFields(object), FieldManager)
		if owned == nil {
			continue
		}
		if err := sets[i].FromJSON(bytes.NewReader(owned.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("managedFields of %q: %w", FieldManager, err)
		}
	}
	return sets[0].Difference(sets[1]), nil
}

// driftWatch has the objects that had drifted at the last observation of their release. Every
// change of such an object by another client is reported, because a change that restores the object
// does not change its fingerprint.
type driftWatch struct {
	mu      sync.Mutex
	drifted map[cache.ObjectName][]types.UID
}

// note replaces the drifted objects of a release.
func (d *driftWatch) note(release cache.ObjectName, drifted []types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(drifted) == 0 {
		delete(d.drifted, release)
		return
	}
	if d.drifted == nil {
		d.drifted = map[cache.ObjectName][]types.UID{}
	}
	d.drifted[release] = drifted
}

func (d *driftWatch) has(release cache.ObjectName, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.drifted[release], uid)
}
