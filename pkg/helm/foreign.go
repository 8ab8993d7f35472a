// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// additions returns the fields that only other clients own and that are not ignored. Some of them may
// be fields of the chart.
func (o *operation) additions(info *resource.Info, object, live *unstructured.Unstructured) (*fieldpath.Set, error) {
	added, err := fields.Foreign(live)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", reference(info), err)
	}
	return fields.NewIgnored(o.ignore, object).Without(added), nil
}

// repairForeign removes the fields that other clients added to an object. applied says that
// the object has just been applied. Otherwise the object is applied first in two cases:
// when it has drifted since the decision, and when another client is the only owner of a
// field that the chart sets. Removing the additions would then remove that field.
func (o *operation) repairForeign(info *resource.Info, object *unstructured.Unstructured, applied bool) error {
	found, err := o.look(info)
	if err != nil {
		return err
	}
	if !applied {
		added, err := o.additions(info, object, found)
		if err != nil {
			return err
		}
		if !fields.OfChart(object, added).Empty() || compare(o.known[identityOf(info)], live.Of(found), false) != "" {
			if _, err := o.put(info, object); err != nil {
				return err
			}
			if found, err = o.look(info); err != nil {
				return err
			}
		}
	}
	return o.removeForeign(info, object, found)
}

func (o *operation) look(info *resource.Info) (*unstructured.Unstructured, error) {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", reference(info), err)
	}
	return live, nil
}

// removeForeign removes the fields that only other clients own and the chart does not set. It accepts
// ignored fields, and fields that the engine owns as well.
func (o *operation) removeForeign(info *resource.Info, object, live *unstructured.Unstructured) error {
	added, err := o.additions(info, object, live)
	if err != nil {
		return err
	}
	added = added.Difference(fields.OfChart(object, added))
	result := live
	if !added.Empty() {
		cleaned, err := fields.Without(live, added)
		if err != nil {
			return fmt.Errorf("remove fields of others from %s: %w", reference(info), err)
		}
		if result, err = o.client(info).Update(o.ctx, cleaned, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
			return refused(reference(info), err)
		}
		o.touched = true
		o.engine.flights.Wrote(o.release, result)
		o.engine.watcher.Wrote(info.Mapping, info.Namespace, result)
	}
	o.engine.watcher.Foreign.Accept(o.release, result.GetUID(), fields.Digest(ssa.ManagedFields(result)))
	o.record(info, result)
	return nil
}
