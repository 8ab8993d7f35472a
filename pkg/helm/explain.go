// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// actionExplain names in logs and metrics what changes nothing.
const actionExplain Action = "Explain"

// Explanation tells what is different about an object that has drifted.
type Explanation struct {
	Drift Drift
	// Fields are what differs and is not to be ignored: JSON pointers for fields that
	// the chart sets, and paths as managedFields have them, such as .data.key, for
	// those that others added. It is empty when the object as a whole is missing, and
	// when all values are as they should be: who owns them may still be another.
	Fields []string
	// Acceptable says that there is nothing to repair, and that nothing will go unseen
	// if the object stays as it is: what others added is to stay, or a changed object
	// differs, also in who owns what, in nothing but ignored fields. A changed one is
	// no drift any more with Live in its place in the baseline.
	Acceptable bool
	// Live is the object as it is. It is zero when the object is missing.
	Live InventoryEntry
}

// Explain finds out which fields of drifted objects differ, apart from those that
// the baseline has ignored. It takes two requests for each object that exists, one of
// them a dry run, and changes nothing. Values are not told: some are secret.
func (e *Engine) Explain(ctx context.Context, name cache.ObjectName, baseline Baseline, drifts []Drift) ([]Explanation, error) {
	defer e.locks.lock(name)()
	var found []Explanation
	desired := Release{Namespace: name.Namespace, Name: name.Name, Ignore: baseline.Ignore}
	_, err := e.measured(ctx, desired, Decision{Action: actionExplain}, baseline, func(o *operation) (*Deployed, error) { //nolint:contextcheck // The operation carries its own context, which outlives the caller's.
		var err error
		found, err = o.explain(drifts)
		return nil, err
	})
	return found, err
}

func (o *operation) explain(drifts []Drift) ([]Explanation, error) {
	record := o.store.newest()
	if record == nil || record.Revision != o.baseline.Revision {
		return nil, fmt.Errorf("release %s: %w: it was changed in the meantime", o.release, ErrNotSynced)
	}
	rls, err := o.store.verified(record.Revision)
	if err != nil {
		return nil, fmt.Errorf("read the deployed release: %w", err)
	}
	resources, err := o.former(rls.Manifest)
	if err != nil {
		return nil, err
	}
	if err := o.claimAll(resources); err != nil {
		return nil, err
	}
	byReference := make(map[ObjectReference]*resource.Info, len(resources))
	for _, info := range resources {
		byReference[reference(info)] = info
	}
	found := make([]Explanation, 0, len(drifts))
	seen := map[ObjectReference]*unstructured.Unstructured{}
	for _, drift := range drifts {
		explanation := Explanation{Drift: drift}
		if info, ok := byReference[drift.Object]; ok {
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

// explainObject looks at an object, unless it was seen already.
func (o *operation) explainObject(info *resource.Info, seen map[ObjectReference]*unstructured.Unstructured, explanation *Explanation) error {
	live, ok := seen[reference(info)]
	if !ok {
		var err error
		live, err = o.look(info)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		seen[reference(info)] = live
	}
	explanation.Live = InventoryEntry{
		ObjectReference: reference(info), UID: live.GetUID(), Digest: fingerprint(managedFields(live)),
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

// explainForeign names what others added. What the chart sets as well is no addition,
// even where they own it alone. Where nothing is left that may be removed, what they
// own is accepted.
func (o *operation) explainForeign(info *resource.Info, object, live *unstructured.Unstructured, explanation *Explanation) error {
	fields, err := o.additions(info, object, live)
	if err != nil {
		return err
	}
	for _, path := range pathsOf(fields.Difference(chartFields(object, fields))) {
		explanation.Fields = append(explanation.Fields, path.String())
	}
	explanation.Fields = nameable(reference(info), explanation.Fields)
	if explanation.Acceptable = fields.Empty(); explanation.Acceptable {
		o.engine.foreign.accept(o.release, live.GetUID(), foreignDigest(managedFields(live)))
	}
	return nil
}

// explainChange names what an apply of the object would change, and finds out
// whether the engine would gain more by it than fields to be ignored.
func (o *operation) explainChange(info *resource.Info, object, live *unstructured.Unstructured, explanation *Explanation) error {
	ref := reference(info)
	applied, err := o.applyDry(info, sparing(object, live, IgnoredPaths(o.ignore, ref)))
	if err != nil {
		return fmt.Errorf("compare %s: %w", ref, err)
	}
	lost, err := lostFields(applied, live)
	if err != nil {
		return fmt.Errorf("compare %s: %w", ref, err)
	}
	explanation.Fields = nameable(ref, differences(stable(applied), stable(live), ""))
	ignored := newIgnoredFields(o.ignore, ref, object)
	explanation.Acceptable = explanation.Drift.Kind == DriftChanged && live.GetUID() == o.known[ref].UID &&
		len(explanation.Fields) == 0 && !slices.ContainsFunc(pathsOf(lost), func(path fieldpath.Path) bool { return !ignored.cover(path) })
	return nil
}

// secretKey is a key in the data of a Secret, in a JSON pointer or in a path of
// managedFields. Keys may be secret themselves.
var secretKey = regexp.MustCompile(`(?s)^([/.](?:data|stringData))[/.].*$`)

// nameable returns the fields of an object that may be named: of the data of a Secret,
// the keys are left out.
func nameable(ref ObjectReference, fields []string) []string {
	if ref.APIVersion != "v1" || ref.Kind != "Secret" {
		return fields
	}
	var named []string
	for _, field := range fields {
		field = secretKey.ReplaceAllString(field, "$1")
		if !slices.Contains(named, field) {
			named = append(named, field)
		}
	}
	return named
}

// applyDry returns the live object as it would be after an apply of a prepared one.
func (o *operation) applyDry(info *resource.Info, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	force := true
	return o.client(info).Patch(o.ctx, info.Name, types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: FieldManager, Force: &force, DryRun: []string{metav1.DryRunAll},
	})
}

// stable is an object without what the API server keeps for itself.
func stable(object *unstructured.Unstructured) map[string]any {
	compared := object.DeepCopy().Object
	delete(compared, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(compared, "metadata", field)
	}
	return compared
}
