// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Release is a release as it is desired.
type Release struct {
	// Namespace and Name identify the release. Helm allows names of at most 53
	// characters.
	Namespace string
	Name      string
	// Chart is what the release installs.
	Chart *Chart
	// Values are merged over the chart's own, and checked against its
	// values.schema.json.
	Values map[string]any
	// Owner, when set, is made the controller of every object of the release
	// that may have an owner in the release's namespace: not of cluster-scoped
	// objects, objects in other namespaces, hooks, and objects with
	// helm.sh/resource-policy: keep.
	Owner *metav1.OwnerReference
	// Scope says where the objects of the release may lie; empty means ScopeNamespace.
	Scope Scope
	// Adopt says that the release and its objects are taken over, whoever made them.
	// Otherwise a release of another owner, or one that neither the engine made nor
	// the caller has a baseline of, is left alone.
	Adopt bool
	// Timeout bounds an operation on this release, hooks included, and is how long
	// one of somebody else is waited for; 0 means [Config.Timeout]. More than
	// [MaxTimeout] counts as that.
	Timeout time.Duration
	// Ignore names the fields that others may change. They are no part of
	// InputDigest.
	Ignore []IgnoreRule
	// MaxHistory is how many revisions of this release are kept; 0 means
	// [Config.MaxHistory]. What the next attempt may need is kept beyond it: the
	// revision before, the deployed one, and the one that is rolled back to.
	MaxHistory int
}

// Key is the name under which the engine knows the release.
func (r Release) Key() cache.ObjectName {
	return cache.ObjectName{Namespace: r.Namespace, Name: r.Name}
}

// InputDigest identifies everything that the release's objects are made from:
// chart, values and owner. Two equal digests mean that there is nothing to
// upgrade, whatever a chart with random functions would render. Timeout,
// MaxHistory, Scope and Adopt are no part of it. It fails when the values cannot be written as JSON.
func (r Release) InputDigest() (string, error) {
	inputs, err := json.Marshal(struct {
		Release string
		Chart   string
		Values  map[string]any
		Owner   *metav1.OwnerReference
	}{r.Key().String(), r.Chart.Digest(), r.Values, r.Owner})
	if err != nil {
		return "", fmt.Errorf("values of release %s: %w", r.Key(), err)
	}
	sum := sha256.Sum256(inputs)
	// Half of the sum fits into a label value together with the revision, and
	// is far more than accidental collisions need.
	return hex.EncodeToString(sum[:16]), nil
}

// ObjectReference names an object of a release.
type ObjectReference struct {
	APIVersion string
	Kind       string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	Name      string
}

// String is the kind and name as kubectl writes them, with the namespace where
// there is one: "Deployment default/web".
func (r ObjectReference) String() string {
	return r.Kind + " " + cache.ObjectName{Namespace: r.Namespace, Name: r.Name}.String()
}

func (r ObjectReference) groupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// InventoryEntry is one object of a deployed release and what it was like right
// after the engine applied it.
type InventoryEntry struct {
	ObjectReference
	UID types.UID
	// Digest is a hash of the fields that the engine owns, as recorded in the
	// object's managedFields. It changes exactly when somebody else changes or
	// removes one of them.
	Digest string
}

// Baseline is what the caller kept of the last successful operation. It is the
// ground against which drift is seen; the zero value means that none is known.
type Baseline struct {
	// Revision is the release's revision that the inventory belongs to.
	Revision  int
	Inventory []InventoryEntry
	// Revisions are those whose records may be relied on, see [Snapshot].
	Revisions []RevisionDigest
	// Scope is that of the release. Objects of the inventory that lie elsewhere are not
	// looked at.
	Scope Scope
	// RemoveForeign makes drift of the fields that others added to the objects,
	// except for the cluster's own controllers and the fields that Ignore names.
	RemoveForeign bool
	// Ignore is that of the release, for those who look at it and do not deploy it.
	Ignore []IgnoreRule
	// LeaveDrift says that drift is reported and not repaired. It only matters to
	// what [Operation] tells of an explanation.
	LeaveDrift bool
}

// Deployed describes a release after a successful operation.
type Deployed struct {
	Revision     int
	Chart        string
	ChartVersion string
	AppVersion   string
	// ChartDigest is the beginning of the chart's digest, as [Record] has it;
	// empty when it is not known.
	ChartDigest string
	// RolledBackTo is the revision whose manifest is deployed again; 0 unless the
	// revision is a rollback of the engine.
	RolledBackTo int
	// ManifestHash is the SHA-256, in hex, of the deployed manifest, with the values of
	// Secrets blanked, and with a key that is in the release's records: a plain hash
	// over secrets, or over checksums of them, would let them be guessed. Equal manifests
	// of a release have equal hashes.
	ManifestHash string
	Inventory    []InventoryEntry
	// Revisions are those whose records may be relied on from now on.
	Revisions []RevisionDigest
	// Scope is that of the release.
	Scope Scope
}

// Baseline is what to keep for the next look at the release.
func (d *Deployed) Baseline() Baseline {
	return Baseline{Revision: d.Revision, Inventory: d.Inventory, Revisions: d.Revisions, Scope: d.Scope}
}
