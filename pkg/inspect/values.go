// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm"
)

// Value is one value of a chart.
type Value struct {
	// Path is the path of the value, such as "image.tag".
	Path string `json:"path"`
	// Value is masked if it is secret.
	Value any `json:"value"`
	// Source is where the value comes from, such as "spec.values" or "chart default".
	Source string `json:"source"`
}

// Values returns the values that the chart of an owner gets, with their sources, sorted by path.
// The defaults of the chart are the defaults of the deployed revision. If the records cannot be
// read, note says so and the defaults are absent. If a source cannot be read, the values of the
// remaining sources come with the error.
func (d Differ) Values(ctx context.Context, owner *unstructured.Unstructured) (found []Value, note, err error) {
	if d.Functions.Children != nil {
		return nil, nil, fmt.Errorf("%s has no chart: it creates its objects itself", ReferenceOf(owner))
	}
	deployed, err := d.deployed(ctx, owner)
	if err != nil {
		note = fmt.Errorf("%w; the defaults of the chart and the operator's overrides are missing", err)
	}
	layers, mask, err := d.layers(ctx, owner, owner, deployed, d.Functions)
	if layers == nil {
		return nil, nil, err
	}
	if deployed != nil {
		layers = append([]Layer{{Source: chartDefault, Values: deployed.Defaults}}, layers...)
	}
	mask.Show = d.Mask.Show
	return valuesOf(layers, mask), note, err
}

// chartDefault is the source of the chart's own values.
const chartDefault = "chart default"

// valuesOf returns the values of layers with their sources.
func valuesOf(layers []Layer, mask Mask) []Value {
	all := merged(layers)
	for _, layer := range layers {
		if layer.Secret {
			mask.Paths = append(mask.Paths, leaves(layer.Values, nil)...)
		}
	}
	mask = mask.withValues(all, mask.Paths)
	var found []Value
	for _, path := range leaves(all, nil) {
		value, _, _ := unstructured.NestedFieldNoCopy(all, path...)
		_, shown := mask.pair(path, nil, value)
		found = append(found, Value{Path: strings.Join(path, "."), Value: shown, Source: sourceOf(layers, path)})
	}
	slices.SortFunc(found, func(a, b Value) int { return cmp.Compare(a.Path, b.Path) })
	return found
}

// sourceOf returns the source of the value at a path: the last layer that sets it.
func sourceOf(layers []Layer, path []string) string {
	for _, layer := range slices.Backward(layers) {
		if _, has, _ := unstructured.NestedFieldNoCopy(layer.Values, path...); !has {
			continue
		}
		joined := strings.Join(path, ".")
		switch source := layer.Sources[joined]; {
		case source != "":
			return source
		case layer.Source == "spec":
			return "spec." + joined
		default:
			return layer.Source
		}
	}
	return chartDefault
}

// Restored is an owner with the spec of an earlier revision.
type Restored struct {
	Owner *unstructured.Unstructured
	// Notes say which fields could not be restored, and why.
	Notes []string
}

// Restore returns an owner with the spec of a recorded revision. A record has the values of the
// chart and not the spec, so fields that do not become values stay as they are. Secrets are not
// restored.
func (d Differ) Restore(ctx context.Context, owner *unstructured.Unstructured, revision int) (*Restored, error) {
	var records []*helm.Recorded
	var err error
	if d.Functions.Children == nil {
		if records, err = d.Recorded(ctx, owner); err != nil {
			return nil, err
		}
	}
	if len(records) == 0 && StatusOf(owner).Release.DeployedRelease == nil {
		return nil, fmt.Errorf("%s has no release, so no revision of it is recorded: only what kubectl demoapp get lists with a revision can be rolled back; "+
			"revert the change where the spec comes from", ReferenceOf(owner))
	}
	record, err := revisionOf(records, revision)
	if err != nil {
		return nil, err
	}
	if d.Functions.Fields == nil {
		return restoreSpec(owner, record, records)
	}
	if d.Functions.Restore == nil {
		return nil, fmt.Errorf("kind %s cannot be rolled back: the plugin does not know which fields of the spec make its values", owner.GetKind())
	}
	restored := &Restored{Owner: owner.DeepCopy()}
	if restored.Notes, err = d.Functions.Restore(restored.Owner, record.Values); err != nil {
		return nil, err
	}
	layers, _, err := d.layers(ctx, owner, owner, record, d.Functions)
	if err != nil {
		return nil, err
	}
	notes, err := restoreInline(restored.Owner, layers, record.Values)
	restored.Notes = append(restored.Notes, notes...)
	return restored, err
}

// restoreSpec restores an owner whose spec is the values. Overridden values stay as they are in the
// spec: an override may be secret.
func restoreSpec(owner *unstructured.Unstructured, record *helm.Recorded, records []*helm.Recorded) (*Restored, error) {
	current := ofGeneration(records, owner)
	if current == nil {
		return nil, fmt.Errorf("the operator has not recorded generation %d of %s yet, so its overrides are unknown; try again later", owner.GetGeneration(), ReferenceOf(owner))
	}
	before, _, _ := unstructured.NestedMap(owner.Object, "spec")
	overrides, complete := difference(before, current.Values)
	if !complete {
		return nil, fmt.Errorf("this plugin cannot roll back %s: %w", ReferenceOf(owner), errTranslated)
	}
	spec := map[string]any{}
	if record.Values != nil {
		spec = (&unstructured.Unstructured{Object: record.Values}).DeepCopy().Object
	}
	for _, path := range leaves(overrides, nil) {
		if value, has, _ := unstructured.NestedFieldCopy(before, path...); has {
			if err := unstructured.SetNestedField(spec, value, path...); err != nil {
				return nil, err
			}
		} else {
			unstructured.RemoveNestedField(spec, path...)
		}
	}
	restored := owner.DeepCopy()
	restored.Object["spec"] = spec
	return &Restored{Owner: restored}, nil
}

// ofGeneration returns the newest record of the owner's generation; nil if no record has it.
func ofGeneration(records []*helm.Recorded, owner *unstructured.Unstructured) *helm.Recorded {
	for _, record := range slices.Backward(records) {
		isOwner := record.OwnerUID() == "" || record.OwnerUID() == owner.GetUID()
		if record.Own && record.Owner.Generation == owner.GetGeneration() && isOwner {
			return record
		}
	}
	return nil
}

// restoreInline restores spec.values. The record does not say which value was in spec.values and
// which in a Secret of valuesFrom, so only values that spec.values has now are restored.
func restoreInline(owner *unstructured.Unstructured, layers []Layer, recorded map[string]any) (notes []string, err error) {
	var below, fields []Layer
	inline := map[string]any{}
	for _, layer := range layers {
		switch layer.Source {
		case "spec":
			fields = append(fields, layer)
		case "spec.values":
			inline = layer.Values
		default:
			below = append(below, layer)
		}
	}
	ofFields, ofReferences := merged(fields), merged(below)
	for _, path := range leaves(inline, nil) {
		if _, isField, _ := unstructured.NestedFieldNoCopy(ofFields, path...); isField {
			continue
		}
		at := append([]string{"spec", "values"}, path...)
		value, had, _ := unstructured.NestedFieldCopy(recorded, path...)
		if !had {
			unstructured.RemoveNestedField(owner.Object, at...)
		} else if err := unstructured.SetNestedField(owner.Object, value, at...); err != nil {
			return nil, err
		}
	}
	for _, path := range leaves(recorded, nil) {
		_, isField, _ := unstructured.NestedFieldNoCopy(ofFields, path...)
		_, isInline, _ := unstructured.NestedFieldNoCopy(inline, path...)
		value, _, _ := unstructured.NestedFieldNoCopy(recorded, path...)
		now, _, _ := unstructured.NestedFieldNoCopy(ofReferences, path...)
		if !isField && !isInline && !sameValue(value, now) {
			notes = append(notes, "value "+strings.Join(path, ".")+" is not restored: the record does not tell whether it was in spec.values, a ConfigMap or a Secret")
		}
	}
	slices.Sort(notes)
	return notes, nil
}
