// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// The annotations with which operators on operator-lib name the owner of an object that cannot have
// an owner reference. The engine reads and writes them on objects outside the release's namespace.
const (
	// PrimaryResourceAnnotation is "<namespace>/<name>" of the owner.
	PrimaryResourceAnnotation = "operator-sdk/primary-resource"
	// PrimaryResourceTypeAnnotation is "<kind>.<group>" of the owner.
	PrimaryResourceTypeAnnotation = "operator-sdk/primary-resource-type"
)

// LegacyReleaseName returns the name that operator-sdk before 1.0 gave to the release of a
// custom resource: its name, a dash, and the 16 bytes of its UID in base 36. It returns an
// empty string for a UID that is not a UUID.
func LegacyReleaseName(name string, uid types.UID) string {
	id, err := hex.DecodeString(strings.ReplaceAll(string(uid), "-", ""))
	if err != nil || len(id) != 16 {
		return ""
	}
	// The algorithm writes one zero for each leading byte that is zero.
	zeros := len(id) - len(bytes.TrimLeft(id, "\x00"))
	short := strings.Repeat("0", zeros)
	if zeros < len(id) {
		short += new(big.Int).SetBytes(id).Text(36)
	}
	return name + "-" + short
}

// checkTakeover fails in a takeover if the newest record names no owner, and nothing else proves
// that the release belongs to the owner. Another client made such a release.
func (o *operation) checkTakeover(desired Release, record *record.Record) error {
	named := record.Owner.UID != "" || record.Controller.UID != ""
	if o.takeover == nil || desired.Chart == nil || desired.Adopt || named || record.Own || o.baseline.Revision != 0 {
		return nil
	}
	rls, _, err := o.store.read(record.Revision)
	if err != nil {
		return fmt.Errorf("read revision %d: %w", record.Revision, err)
	}
	conflict := &OwnershipConflictError{
		Object: ObjectReference{Kind: ssa.ReleaseKind, Namespace: desired.Namespace, Name: desired.Name}, Holder: "an unknown chart",
	}
	if rls == nil || rls.Chart == nil || rls.Chart.Metadata == nil {
		return conflict
	}
	if name := rls.Chart.Metadata.Name; name != desired.Chart.Name() {
		conflict.Holder = fmt.Sprintf("the chart %.100q", name)
		return conflict
	}
	if desired.TakeoverUnmarked {
		return nil
	}
	conflict.Holder = "another client"
	return o.controlsObjects(rls, conflict)
}

// controlsObjects returns the conflict unless the owner is the controller of the release's objects
// in its namespace. Early versions of operator-sdk name the owner on the objects, but not on the
// records. A tenant who may write all of these objects gains nothing by the takeover. A tenant who
// may only create owners cannot set the owner of an object. Deleted objects, and objects that the
// chart keeps, have no owner, so they do not count.
func (o *operation) controlsObjects(rls *releasev1.Release, conflict *OwnershipConflictError) error {
	controlled := false
	for _, info := range o.claimedBy(rls) {
		if info.Namespace != o.release.Namespace {
			continue
		}
		live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look for the owner of %s: %w", reference(info), err)
		}
		if manifest.IsKept(live) {
			continue
		}
		if !o.isController(live) {
			return conflict
		}
		controlled = true
	}
	if !controlled {
		return conflict
	}
	return nil
}

// isOutside reports whether an object is outside the release's namespace, where the tenants
// of that namespace cannot write.
func (o *operation) isOutside(object metav1.Object) bool {
	return object.GetNamespace() != o.release.Namespace
}

// provesOwner reports whether the release's marks on an object prove that the object belongs to the
// release. In the release's namespace they do, as for `helm install`: a client that can write the
// marks can write the object, and gains nothing if the release takes it. Any release of the same
// name has the same marks, and the tenants of the namespace can create and delete its records. So
// outside the namespace, records prove nothing. The baseline must have the object, or the object must
// name the owner. A release without an owner has no tenant who could gain.
func (o *operation) provesOwner(info *resource.Info, live metav1.Object) bool {
	if _, ok := o.known[identityOf(info)]; ok || !o.isOutside(live) {
		return true
	}
	return o.namesOwner(live) || o.primary == nil && o.established
}

// isNamed reports whether an object of a takeover has the annotations of the release's owner, and no
// mark of another release. The upstream operators create a removed object without Helm's marks, so an
// object that cannot have an owner reference has only these annotations.
func (o *operation) isNamed(live metav1.Object) bool {
	manager, holder := live.GetLabels()[manifest.ManagedByLabel], live.GetAnnotations()[manifest.ReleaseNameAnnotation]
	return o.takeover != nil && o.namesOwner(live) && (manager == "" || manager == manifest.ManagedByHelm) &&
		(holder == "" || o.owned(live))
}

// namesOwner reports whether the annotations of an object name the release's owner.
func (o *operation) namesOwner(live metav1.Object) bool {
	if o.primary == nil {
		return false
	}
	for key, value := range ownerAnnotations(o.release.Namespace, *o.primary) {
		if live.GetAnnotations()[key] != value {
			return false
		}
	}
	return true
}

// markOwner names the owner on an object outside the release's namespace.
func (o *operation) markOwner(object metav1.Object) {
	if o.primary != nil {
		MarkOwner(object, o.release.Namespace, *o.primary)
	}
}

// MarkOwner names the owner of a release on an object outside the release's namespace, in the same way
// as the upstream operators. The object's namespace must be set, unless it is cluster-scoped.
func MarkOwner(object metav1.Object, namespace string, owner metav1.OwnerReference) {
	if object.GetNamespace() == namespace {
		return
	}
	annotations := map[string]string{}
	maps.Copy(annotations, object.GetAnnotations())
	maps.Copy(annotations, ownerAnnotations(namespace, owner))
	object.SetAnnotations(annotations)
}

// ownerAnnotations returns the annotations that name the owner of a release in a namespace.
func ownerAnnotations(namespace string, owner metav1.OwnerReference) map[string]string {
	return map[string]string{
		PrimaryResourceAnnotation:     cache.ObjectName{Namespace: namespace, Name: owner.Name}.String(),
		PrimaryResourceTypeAnnotation: schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind().String(),
	}
}

const (
	// helmOperator is the field manager of an operator that was built from watches.yaml.
	helmOperator = "helm-operator"
	// unnamedClient is the field manager of a client that sends no name. The upstream operators
	// correct drift, and create removed objects, through such a client.
	unnamedClient = "Go-http-client"
	// upstreamChartLabel is the label by which operator-sdk's helm-operator names the chart on objects.
	upstreamChartLabel = "helm.sdk.operatorframework.io/chart"
)

// releaseNamePath is the field by which Helm marks an object.
var releaseNamePath = fieldpath.MakePathOrDie("metadata", "annotations", manifest.ReleaseNameAnnotation)

// clientSideManagers returns the field managers under which Helm applied an object by
// client-side apply. In a takeover, these are also the managers of the upstream operator.
func (o *operation) clientSideManagers(info *resource.Info) func(live metav1.Object) sets.Set[string] {
	return func(live metav1.Object) sets.Set[string] {
		if o.takeover == nil {
			return sets.New(FieldManager)
		}
		var former *unstructured.Unstructured
		if found := o.formerObjects.Get(info); found != nil {
			former, _ = content(found)
		}
		return upstreamManagers(live, former)
	}
}

// upstreamManagers returns the field managers under which an upstream operator wrote an object. Helm
// uses the name of the binary, so these are also the managers that set Helm's mark. Any client may
// send no name. A write of such a client counts only if the manifest of the upstream operator, former,
// sets one of the fields.
func upstreamManagers(live metav1.Object, former *unstructured.Unstructured) sets.Set[string] {
	managers := sets.New(FieldManager, helmOperator)
	if former != nil {
		former = asUpstream(former, live)
	}
	for _, entry := range live.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationUpdate || entry.Subresource != "" || entry.FieldsV1 == nil ||
			strings.HasPrefix(entry.Manager, "kubectl") {
			continue // kubectl sets the mark for a user who hands the object over to Helm.
		}
		written := fieldpath.NewSet()
		if err := written.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			continue
		}
		unnamed := entry.Manager == unnamedClient && former != nil && !fields.OfChart(former, written).Empty()
		if unnamed || written.Has(releaseNamePath) {
			managers.Insert(entry.Manager)
		}
	}
	return managers
}

// asUpstream returns an object of a manifest with the metadata that upstream operators add to it.
func asUpstream(former *unstructured.Unstructured, live metav1.Object) *unstructured.Unstructured {
	former = former.DeepCopy()
	labels, annotations := map[string]string{upstreamChartLabel: ""}, map[string]string{
		PrimaryResourceAnnotation: "", PrimaryResourceTypeAnnotation: "",
	}
	maps.Copy(labels, former.GetLabels())
	maps.Copy(annotations, former.GetAnnotations())
	former.SetLabels(labels)
	former.SetAnnotations(annotations)
	if owner := metav1.GetControllerOf(live); owner != nil {
		former.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	return former
}

// TakenOver returns a live object after a takeover. former is the object's version in the manifest of the
// upstream operator, or nil, and applied the answer to a dry run of the engine's apply.
func TakenOver(
	ctx context.Context, client dynamic.ResourceInterface, live, former, applied *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	return takenFrom(ctx, client, live, applied, upstreamManagers(live, former))
}

// takenFrom is TakenOver for the field managers of the former client. It sends a dry run, because
// defaults of the API server are among the fields that the takeover removes.
func takenFrom(
	ctx context.Context, client dynamic.ResourceInterface, live, applied *unstructured.Unstructured, former sets.Set[string],
) (*unstructured.Unstructured, error) {
	after, err := fields.AfterTakeover(live, applied, former)
	if err != nil {
		return nil, err
	}
	patch, err := replacing(live, after)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: FieldManager}
	return client.Patch(ctx, live.GetName(), types.JSONPatchType, patch, options)
}

// patchStep is one operation of a JSON patch.
type patchStep struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// replacing returns the JSON patch that gives an object the content of another version, except for its
// status and its identity.
func replacing(live, after *unstructured.Unstructured) ([]byte, error) {
	patch := []patchStep{}
	replace := func(path string, before, after map[string]any, skip ...string) {
		for key := range before {
			if _, has := after[key]; !has && !slices.Contains(skip, key) {
				patch = append(patch, patchStep{Op: "remove", Path: path + ssa.PointerToken(key)})
			}
		}
		for key, value := range after {
			if !slices.Contains(skip, key) && !reflect.DeepEqual(before[key], value) {
				patch = append(patch, patchStep{Op: "add", Path: path + ssa.PointerToken(key), Value: value})
			}
		}
	}
	replace("", live.Object, after.Object, "apiVersion", "kind", "metadata", "status")
	metadata := func(object *unstructured.Unstructured) map[string]any {
		found := map[string]any{}
		for _, field := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
			if value, has, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", field); has && value != nil {
				found[field] = value
			}
		}
		return found
	}
	replace("/metadata", metadata(live), metadata(after))
	return json.Marshal(patch)
}
