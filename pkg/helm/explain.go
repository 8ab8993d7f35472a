// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// actionExplain names an explanation in logs and metrics.
const actionExplain Action = "Explain"

// Explanation describes how a drifted object differs from its desired state.
type Explanation struct {
	Drift Drift
	// Fields are the differing fields that are not ignored: JSON pointers to fields that
	// the chart sets, and paths as in managedFields, such as .data.key, of fields that
	// other clients added. It is empty when the object is missing, and when only the
	// owners of fields differ.
	Fields []string
	// Managers are the field managers of the other clients that own these fields.
	Managers []string
	// Acceptable means that the object need not be corrected, and that later changes will still be
	// detected. Either all fields that other clients added are ignored, or only ignored fields and
	// their owners differ. With Live in the baseline, a changed object is no longer drift.
	Acceptable bool
	// Live is the entry of the live object. It is zero when the object is missing.
	Live InventoryEntry
}

// Explain determines which fields of drifted objects differ, except for fields that the baseline
// ignores. It sends two requests for each existing object, one of them a dry run, and changes
// nothing. It returns no values, because some are secret. It uses the namespace, name, scope,
// service account and timeout of the release.
func (e *Engine) Explain(ctx context.Context, release Release, baseline Baseline, drifts []Drift) ([]Explanation, error) {
	defer e.locks.lock(release.Key())()
	var found []Explanation
	desired := Release{
		Namespace: release.Namespace, Name: release.Name, Scope: release.Scope, ServiceAccount: release.ServiceAccount,
		Owner: release.Owner, Takeover: release.Takeover, Timeout: release.Timeout, Ignore: baseline.Ignore, FieldValidation: release.FieldValidation,
	}
	_, err := e.measured(ctx, desired, Decision{Action: actionExplain}, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
		var err error
		found, err = o.explain(drifts)
		return nil, err
	})
	return found, err
}

func (o *operation) explain(drifts []Drift) ([]Explanation, error) {
	record := record.Deployed(o.store.history(), o.baseline.Revision, o.store.digests)
	if record == nil {
		return nil, fmt.Errorf("release %s: %w: the release has changed since it was observed", o.release, ErrNotSynced)
	}
	rls, err := o.store.verified(record.Revision)
	if err != nil {
		return nil, fmt.Errorf("read the deployed release: %w", err)
	}
	resources, err := o.build(rls.Manifest)
	if err != nil && !isExcluded(err) {
		return nil, err
	}
	if err := o.claimAll(resources); err != nil {
		return nil, err
	}
	byIdentity := make(map[Identity]*resource.Info, len(resources))
	for _, info := range resources {
		byIdentity[identityOf(info)] = info
	}
	found := make([]Explanation, 0, len(drifts))
	seen := map[Identity]*unstructured.Unstructured{}
	for _, drift := range drifts {
		explanation := Explanation{Drift: drift}
		if info, ok := byIdentity[drift.Object.Identity()]; ok {
			if err := o.explainObject(info, seen, &explanation); err != nil {
				return nil, err
			}
		}
		found = append(found, explanation)
		if o.baseline.LeaveDrift && (len(explanation.Fields) > 0 || drift.Kind == DriftMissing || drift.Kind == DriftReplaced) {
			o.left = append(o.left, drift)
		}
	}
	return found, nil
}

// explainObject explains the drift of one object. seen has the live objects so far.
func (o *operation) explainObject(info *resource.Info, seen map[Identity]*unstructured.Unstructured, explanation *Explanation) error {
	live, ok := seen[identityOf(info)]
	if !ok {
		var err error
		live, err = o.look(info)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		seen[identityOf(info)] = live
	}
	explanation.Live = InventoryEntry{
		ObjectReference: reference(info), UID: live.GetUID(), Digest: fingerprint(ssa.ManagedFields(live)),
	}
	object, err := content(info)
	if err != nil {
		return err
	}
	if explanation.Drift.Kind == DriftForeign {
		return o.explainForeign(info, object, live, explanation)
	}
	return o.explainChange(info, object, live, explanation)
}

// explainForeign names the fields that other clients added. A field that the chart also
// sets is not an addition, even if another client is its only owner. If no field may be
// removed, the fields are accepted.
func (o *operation) explainForeign(info *resource.Info, object, live *unstructured.Unstructured, explanation *Explanation) error {
	added, err := o.additions(info, object, live)
	if err != nil {
		return err
	}
	for _, path := range fields.Paths(added.Difference(fields.OfChart(object, added))) {
		explanation.Fields = append(explanation.Fields, path.String())
	}
	explanation.Fields = ssa.Nameable(live.GroupVersionKind().GroupKind(), explanation.Fields)
	if explanation.Managers, err = ssa.Owners(live, added, FieldManager); err != nil {
		return err
	}
	if explanation.Acceptable = added.Empty(); explanation.Acceptable {
		o.engine.watcher.Foreign.Accept(o.release, live.GetUID(), fields.Digest(ssa.ManagedFields(live)))
	}
	return nil
}

// explainChange names the fields that an apply of the object would change, and determines whether
// the engine would become the owner of only ignored fields.
func (o *operation) explainChange(info *resource.Info, object, live *unstructured.Unstructured, explanation *Explanation) error {
	ref := reference(info)
	applied, err := o.applyDry(info, fields.Sparing(object, live, fields.IgnoredPaths(o.ignore, ref.Kind, ref.Name)))
	if collisions := ssa.CollisionsOf(err); !collisions.None() {
		explanation.Fields = collisions.Pointers() // The apply restores these lists first.
		return nil
	}
	if err != nil {
		return fmt.Errorf("compare %s: %w", ref, err)
	}
	loss, err := ssa.LossOf(applied, live, FieldManager)
	if err != nil {
		return fmt.Errorf("compare %s: %w", ref, err)
	}
	explanation.Fields, explanation.Managers = loss.Fields, loss.Managers
	ignored := fields.NewIgnored(o.ignore, object)
	explanation.Acceptable = explanation.Drift.Kind == DriftChanged && live.GetUID() == o.known[identityOf(info)].UID &&
		len(explanation.Fields) == 0 && !slices.ContainsFunc(fields.Paths(loss.Paths), func(path fieldpath.Path) bool { return !ignored.Cover(path) })
	return nil
}

// applyDry returns the live object as it would be after an apply.
func (o *operation) applyDry(info *resource.Info, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	send := func(prepared *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		data, options, err := ssa.Request(prepared, FieldManager, ssa.Force, "")
		if err != nil {
			return nil, err
		}
		options.DryRun = []string{metav1.DryRunAll}
		return o.client(info).Patch(o.ctx, info.Name, types.ApplyPatchType, data, options)
	}
	prepared := ssa.Prepare(object)
	applied, err := send(prepared)
	if known := o.withoutUnknown(info, prepared, err); known != nil {
		return send(known)
	}
	return applied, err
}
