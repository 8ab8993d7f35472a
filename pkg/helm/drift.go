// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// DriftChanged: somebody changed or removed a field that the engine owns.
	DriftChanged DriftKind = "Changed"
	// DriftForeign: somebody added fields, and [Baseline] has them removed.
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
// means not at all.
func compare(want InventoryEntry, got *observed) DriftKind {
	switch {
	case got == nil:
		return DriftMissing
	case got.UID != want.UID:
		return DriftReplaced
	case got.digest != want.Digest:
		return DriftChanged
	default:
		return ""
	}
}

// fingerprint is the digest of the fields that the engine owns in an object, as
// the API server keeps them in managedFields. The server drops a field from our
// entry as soon as somebody else gives it another value or removes it, and
// leaves the entry alone when others add fields of their own, so that equal
// fingerprints mean that nothing of ours has changed. It is empty when we own
// nothing.
func fingerprint(managed []metav1.ManagedFieldsEntry) string {
	for i := range managed {
		entry := &managed[i]
		if entry.Manager != FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" {
			continue
		}
		if entry.FieldsV1 == nil {
			return ""
		}
		sum := sha256.Sum256(entry.FieldsV1.GetRawBytes())
		return hex.EncodeToString(sum[:16])
	}
	return ""
}
