// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"
)

// actionExplain names in logs and metrics what changes nothing.
const actionExplain Action = "Explain"

// Explanation tells what is different about an object that has drifted.
type Explanation struct {
	Drift Drift
	// Fields are what differs: JSON pointers for fields that the chart sets, and
	// paths as managedFields have them, such as .data.key, for those that others
	// added. It is empty when the object as a whole is missing.
	Fields []string
	// Live is the object as it is, for who accepts that: see
	// [InventoryEntry.Digest]. It is zero when the object is missing.
	Live InventoryEntry
}

// Explain finds out which fields of drifted objects differ. It takes two
// requests for each object that exists, one of them a dry run, and changes
// nothing. Values are not told: some are secret.
func (e *Engine) Explain(ctx context.Context, name cache.ObjectName, baseline Baseline, drifts []Drift) ([]Explanation, error) {
	defer e.locks.lock(name)()
	var found []Explanation
	_, err := e.measured(ctx, Release{Namespace: name.Namespace, Name: name.Name}, Decision{Action: actionExplain, Drifts: drifts}, baseline,
		func(o *operation) (*Deployed, error) {
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
	rls, err := o.store.read(record.Revision)
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
	for _, drift := range drifts {
		explanation := Explanation{Drift: drift}
		if info, ok := byReference[drift.Object]; ok {
			if err := o.explainObject(info, &explanation); err != nil {
				return nil, err
			}
		}
		found = append(found, explanation)
	}
	return found, nil
}

func (o *operation) explainObject(info *resource.Info, explanation *Explanation) error {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", reference(info), err)
	}
	explanation.Live = InventoryEntry{
		ObjectReference: reference(info), UID: live.GetUID(), Digest: fingerprint(managedFields(live)),
	}
	if explanation.Drift.Kind == DriftForeign {
		foreign, err := foreignFields(live)
		if err != nil {
			return fmt.Errorf("look at %s: %w", reference(info), err)
		}
		for _, path := range pathsOf(foreign) {
			explanation.Fields = append(explanation.Fields, path.String())
		}
		return nil
	}
	object, err := content(info)
	if err != nil {
		return err
	}
	applied, err := o.applyDry(info, object)
	if err != nil {
		return fmt.Errorf("compare %s: %w", reference(info), err)
	}
	explanation.Fields = differences(stable(applied), stable(live), "")
	return nil
}

// applyDry returns the object as it would be after an apply.
func (o *operation) applyDry(info *resource.Info, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	desired, err := prepare(object)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(desired.Object)
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
