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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// Release is the desired state of a release.
type Release struct {
	// Namespace and Name identify the release. Helm allows names of at most 53
	// characters.
	Namespace string
	Name      string
	// Chart is the chart of the release.
	Chart *chart.Chart
	// Values are merged over the chart's own values and validated by its
	// values.schema.json.
	Values map[string]any
	// Owner, when set, becomes the controller of every object of the release, except for
	// cluster-scoped objects, objects in other namespaces, hooks, and objects with
	// helm.sh/resource-policy: keep. The engine takes the release of an earlier owner of the same
	// kind and name, so the caller must know that the owner exists: UIDs do not show which owner is
	// newer.
	Owner *metav1.OwnerReference
	// OwnerGeneration is the owner's generation; 0 if it is not known. The records of the
	// revisions name it. It is not part of InputDigest.
	OwnerGeneration int64
	// Scope limits the namespaces of the release's objects. Empty means ScopeNamespace.
	Scope Scope
	// Adopt takes over a release without an owner, and its objects, no matter which client made
	// them. Objects outside the release's namespace must name the owner, see
	// [PrimaryResourceAnnotation]. Without Adopt, the engine does not change a release that another client made, unless
	// the caller has a baseline of the release.
	Adopt bool
	// Takeover takes over a release that an operator on the Helm SDK made for the owner, as
	// operator-sdk's helm-operator does. It needs an Owner. The newest record must have a
	// controller reference to the owner. A record without a controller reference must be of a chart
	// of the same name, and the owner must control the release's objects in its namespace. An
	// object is taken over if it has the release's marks, or if the owner is its controller.
	// Outside the release's namespace, the marks must also name the owner, see
	// [PrimaryResourceAnnotation]. Takeover is the decision of the administrator who runs the
	// operator: it stays set for the life of the release, also for Uninstall.
	Takeover bool
	// TakeoverUnmarked extends Takeover to releases of a chart of the same name that show no owner
	// at all, such as releases of the helm command. A user who may create an owner can then take
	// over such a release by its name.
	TakeoverUnmarked bool
	// Consents reports whether a user consents to what an operation that takes a release over would do
	// to objects and pods. Nil consents to nothing. Without consent, the operation fails with the
	// [ConsentError] before it writes anything.
	Consents func(*ConsentError) bool
	// Timeout bounds an operation on this release, hooks included. It is also the time
	// after which the operation of another client counts as abandoned. 0 means
	// [Config.Timeout]; the maximum is [MaxTimeout].
	Timeout time.Duration
	// Ignore names fields that other clients may change. It is not part of InputDigest.
	Ignore []IgnoreRule
	// MaxHistory is the number of revisions to keep; 0 means [Config.MaxHistory]. Revisions that
	// the next attempt may need are kept in addition: the previous revision, the deployed revision,
	// and the target of a rollback.
	MaxHistory int
	// ServiceAccount is the name of a service account in the release's namespace; empty
	// means the engine's own account. Every request of an operation on the release is then
	// sent as this account, by impersonation: for its objects, hooks, lookups, release
	// records and dry runs. The engine needs the permission to impersonate it.
	//
	// Discovery and watches keep the engine's own account, because all releases share
	// them. Discovery reads no objects. Of watched objects, the engine keeps metadata and
	// health, and templates cannot see them.
	ServiceAccount string
	// FieldValidation determines the handling of unknown fields: with metav1.FieldValidationStrict,
	// the default, the object is refused. With Warn and Ignore, the engine leaves out the fields of
	// built-in kinds, as the API server does without server-side apply. Warn names them in
	// [Deployed.Notes]. Custom resources with unknown fields are refused.
	FieldValidation string
	// Install, Upgrade and Uninstall are the options of these actions. A rollback uses the options
	// of Upgrade.
	Install, Upgrade, Uninstall ActionOptions
	// KeepShutdown lets the pods of a workload keep how they end (see package shutdown) if an upgrade would
	// change nothing else in the pod template: it would restart all pods for this alone. They get it with
	// the next change of the template, or with an upgrade that was requested ([CauseRequested]).
	// It is not part of InputDigest.
	KeepShutdown bool
	// ForceReplace lets an install or upgrade replace an object whose change the
	// API server refuses, for instance because a field is immutable. The engine deletes the
	// object, waits until it is gone, and creates it again. It replaces only objects that it
	// created, as known by their UID, and objects of a takeover to whose replacement a user Consents. Before the deletion, a dry run checks that the API
	// server would accept the new object. Objects whose deletion deletes data, or which the
	// chart keeps, are never replaced, see [NotReplacedError]. A repair replaces nothing.
	ForceReplace bool
	// RollbackForceReplace is ForceReplace for a rollback.
	RollbackForceReplace bool
	// AwaitRemoval means that the caller waits with [Engine.Remaining] until the objects of an
	// uninstalled release are gone. Subscribers are then notified when the objects disappear.
	AwaitRemoval bool
}

// IgnoreRule names fields of a release's objects that other clients may change. See
// [fields.IgnoreRule].
type IgnoreRule = fields.IgnoreRule

// ActionOptions are options of an action.
type ActionOptions struct {
	// DisableHooks leaves out the hooks of the action.
	DisableHooks bool
	// Description describes the revision in the release's history, in place of Helm's own
	// text. It is cut to [MaxDescription] bytes, and to a quarter of that for a rollback.
	// The description of an uninstall is in the newest record until the uninstall has
	// succeeded and removed all records.
	Description string
}

// MaxDescription is the largest size in bytes of the description of a revision.
const MaxDescription = 1 << 10

// description returns the description, cut to a number of bytes.
func (a ActionOptions) description(limit int) string { return message.Truncate(a.Description, limit) }

// user returns the user name of the service account; empty without one.
func (r Release) user() (string, error) {
	if r.ServiceAccount == "" {
		return "", nil
	}
	if problems := validation.IsDNS1123Subdomain(r.ServiceAccount); len(problems) > 0 {
		return "", fmt.Errorf("release %s: %w %q: %s", r.Key(), ErrInvalidServiceAccount, r.ServiceAccount, problems[0])
	}
	return "system:serviceaccount:" + r.Namespace + ":" + r.ServiceAccount, nil
}

// Key returns namespace and name of the release.
func (r Release) Key() cache.ObjectName {
	return cache.ObjectName{Namespace: r.Namespace, Name: r.Name}
}

// owns reports whether the release belongs to the owner, by its newest record. A release that was
// let go belongs to the next owner of the kind and name that its record still has. Otherwise, it has
// to be adopted. If the labels name an owner, they decide. In a takeover, the record's
// controller reference decides next. Otherwise the release belongs to the owner if the engine made
// the revision, the caller has a baseline of it, or it is to be adopted or taken over.
func (r Release) owns(owner record.Owner, newest *record.Record, remembered bool) bool {
	takeover := r.Takeover && owner.UID != ""
	switch {
	case newest.Owner.UID == record.Released:
		return r.Adopt || owner.Succeeds(newest.Owner)
	case newest.Owner.UID != "":
		return owner.Succeeds(newest.Owner)
	case takeover && newest.Controller.UID != "":
		return owner.Succeeds(newest.Controller)
	default:
		return newest.Own || remembered || r.Adopt || takeover
	}
}

// InputDigest identifies the inputs of the release's objects: chart, values and owner. Equal
// digests mean that there is nothing to upgrade, even if the chart renders differently each
// time. The other fields are not part of it, and neither is the version of the owner's API: the
// owner is the same in each version. It fails when the values cannot be encoded as JSON.
func (r Release) InputDigest() (string, error) {
	if r.Owner != nil {
		owner := *r.Owner
		owner.APIVersion = schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group
		r.Owner = &owner
	}
	return r.inputDigest()
}

// Recognize returns the snapshot with InputDigest in place of the digest of the same inputs that
// an earlier version of the engine recorded. That digest names the version of the owner's API.
func (r Release) Recognize(observed Snapshot) Snapshot {
	if r.Owner == nil || observed.Record == nil || !observed.Record.Own {
		return observed
	}
	now, err := r.InputDigest()
	if err != nil || observed.Record.Settles(now) {
		return observed // Decide returns the error.
	}
	earlier, err := r.inputDigest()
	if err != nil || !observed.Record.Settles(earlier) {
		return observed
	}
	recognized := *observed.Record
	if recognized.Inputs == earlier {
		recognized.Inputs = now
	}
	if recognized.Abandoned == earlier {
		recognized.Abandoned = now
	}
	observed.Record = &recognized
	return observed
}

func (r Release) inputDigest() (string, error) {
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
	// Half of the sum fits into a label value together with the revision, and is long
	// enough to avoid accidental collisions.
	return hex.EncodeToString(sum[:16]), nil
}

// ObjectReference names an object of a release.
type ObjectReference = ssa.ObjectReference

// Identity identifies an object in all versions of its kind.
type Identity = ssa.Identity

// InventoryEntry is one object of a deployed release, in its state right after the engine's apply.
type InventoryEntry struct {
	ObjectReference
	UID types.UID
	// Digest identifies the fields that the engine owns and the time of its last apply, from
	// the object's managedFields. It changes when another client changes or removes one of
	// these fields, under whatever field manager.
	Digest string
	// Ended is the result of an object that has ended by itself. It may be gone.
	Ended End
}

// Baseline is the state after the last successful operation, which the caller stores. Drift is
// measured against it. The zero value means that there is no baseline.
type Baseline struct {
	// Revision is the revision of the inventory.
	Revision  int
	Inventory []InventoryEntry
	// Revisions are the digests of the revisions whose records can be verified, see
	// [Snapshot].
	Revisions []record.Digest
	// Scope is the scope of the release. Objects of the inventory outside of it are not
	// observed.
	Scope Scope
	// RemoveForeign makes fields that other clients added count as drift, except for
	// fields of the cluster's own controllers and fields that Ignore names.
	RemoveForeign bool
	// Ignore has the rules of the release, for observing and explaining it.
	Ignore []IgnoreRule
	// LeaveDrift means that drift is reported, but not repaired. It affects only the drifts that
	// [Operation] reports for an explanation.
	LeaveDrift bool
}

// Deployed describes a release after a successful operation.
type Deployed struct {
	Revision     int
	Chart        string
	ChartVersion string
	AppVersion   string
	// ChartDigest is the beginning of the chart's digest, as [record.Record] has it;
	// empty when it is not known.
	ChartDigest string
	// RolledBackTo is the revision whose manifest is deployed again; 0 unless the
	// revision is a rollback of the engine.
	RolledBackTo int
	// ManifestHash is the HMAC-SHA256, in hex, of the deployed manifest without the values
	// of Secrets. The key is in the release's records, because a hash without a key could
	// reveal secrets or their checksums. Equal manifests of a release have equal hashes.
	ManifestHash string
	Inventory    []InventoryEntry
	// Revisions are the digests of the revisions whose records can be verified.
	Revisions []record.Digest
	// Scope is the scope of the release.
	Scope Scope
	// Changes are the differences from the previous revision, if the operation made a revision.
	Changes Changes
	// Uncorrected means that a repair found all objects as desired. A change of an object may look like
	// drift, see [ssa.Trace.MayHide].
	Uncorrected bool
	// Notes has one line for each part of the manifest that the engine did not send, at most 10.
	Notes []string
}

// Baseline returns the baseline for the next observation of the release.
func (d *Deployed) Baseline() Baseline {
	return Baseline{Revision: d.Revision, Inventory: d.Inventory, Revisions: d.Revisions, Scope: d.Scope}
}
