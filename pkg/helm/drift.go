// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// FieldManager is the field manager of the engine's applies. See [manifest.FieldManager].
const FieldManager = manifest.FieldManager

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
	// Unserved means that the API server no longer serves the kind of the object in the version of
	// the inventory. The object cannot be repaired before the version is served again.
	Unserved bool
}

// String returns the object and the kind of its drift.
func (d Drift) String() string { return d.Object.String() + " " + string(d.Kind) }

// compare returns how the observed object differs from the baseline. An empty kind means no drift.
// doubted means that another client may have changed the object without a new fingerprint, see
// [ssa.Trace.MayHide].
func compare(want InventoryEntry, got *live.Object, doubted bool) DriftKind {
	switch {
	case got == nil:
		return DriftMissing
	case got.UID != want.UID:
		return DriftReplaced
	case doubted, !ssa.Matches(want.Digest, got.Trace.Fingerprint):
		return DriftChanged
	default:
		return ""
	}
}

// fingerprint identifies the state in which the engine left an object.
func fingerprint(managed []metav1.ManagedFieldsEntry) string {
	return ssa.Fingerprint(managed, FieldManager)
}
