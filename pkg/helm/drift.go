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

// FieldManager is the name under which the engine applies objects. It is the
// one that the helm CLI uses, so that both are one owner of the fields.
const FieldManager = "helm"

// DriftKind is how an object differs from its baseline.
type DriftKind string

// The kinds of drift.
const (
	// DriftMissing: the object is gone, or no longer carries the label by which
	// the engine watches it.
	DriftMissing DriftKind = "Missing"
	// DriftReplaced: another object has taken its name.
	DriftReplaced DriftKind = "Replaced"
	// DriftChanged: another client changed or removed a field that the engine owns.
	DriftChanged DriftKind = "Changed"
	// DriftForeign: another client added fields, and [Baseline] has them removed.
	DriftForeign DriftKind = "Foreign"
)

// Drift is an object of a release that is not what the engine made it.
type Drift struct {
	Object ObjectReference
	Kind   DriftKind
	// Unserved says that the object is missing together with its kind, which the API
	// server no longer serves. It cannot be repaired before that is back.
	Unserved bool
}

// String names the object and what is wrong with it.
func (d Drift) String() string { return d.Object.String() + " " + string(d.Kind) }

// compare tells how what is observed differs from the baseline. An empty kind
// means not at all. A doubted object may have been changed unseen, see [ssa.Trace.MayHide].
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

// lostFields are the fields that the engine would own after an apply and does not
// own in the live object.
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

// driftWatch remembers which objects had drifted when their release was last looked
// at. Every change of such an object by another client is reported: it may restore the
// object, which leaves the fingerprint as it is.
type driftWatch struct {
	mu      sync.Mutex
	drifted map[cache.ObjectName][]types.UID
}

// note replaces what is known of a release.
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
