// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/redact"
)

// Intended is the release that the operator makes for an object.
type Intended struct {
	// Namespace and Name are the namespace and the name of the release.
	Namespace, Name string
	Chart           *chart.Chart
	Values          map[string]any
	// Overridden are the values by which an entry of watches.yaml overrides the object. They count as
	// secret.
	Overridden map[string]any
	// Bounded says that the release may have objects in its own namespace only.
	Bounded bool
	// SkipsHooks says that the upgrade runs no hooks.
	SkipsHooks bool
}

// Takeover compares the live objects of a release of another operator with the result of a takeover. It
// changes nothing. The marks and owner references that a takeover sets on all objects are not part of
// the comparison. hooks are the objects that hooks replace.
func (d Differ) Takeover(
	ctx context.Context, owner *unstructured.Unstructured, h *Handover, intended Intended,
) (objects []Difference, hooks []Reference, err error) {
	before, err := h.recorded.Objects()
	if err != nil {
		return nil, nil, err
	}
	d.Mask = d.masking(ctx, owner, h.recorded).withValues(intended.Values, leaves(intended.Overridden, nil))
	after, created, err := h.recorded.RenderChart(ctx, intended.Chart, intended.Values, controllerOf(owner), d.Getter, intended.Bounded)
	if err != nil {
		return nil, nil, redact.Error(slices.Collect(texts(intended.Overridden)), err)
	}
	d.Mask = d.Mask.withSecretsOf(before).withSecretsOf(after)
	d.takesOver = map[Reference]*unstructured.Unstructured{}
	for _, object := range before {
		if err := d.place(object, h.Namespace); err != nil {
			return nil, nil, err
		}
		d.takesOver[ReferenceOf(object)] = object
	}
	for _, hook := range created {
		if !intended.SkipsHooks {
			hooks = append(hooks, ReferenceOf(hook))
		}
	}
	objects, err = d.compareAll(ctx, owner, plainly(after), before, helm.FieldManager, h.Namespace)
	return objects, hooks, err
}

// takenOver returns an object before and after a takeover, given the answer to a dry run of the apply.
func (d Differ) takenOver(ctx context.Context, live, applied *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	resource, err := d.resourceOf(live)
	if err != nil {
		return nil, nil, err
	}
	after, err = helm.TakenOver(ctx, resource, live, d.takesOver[ReferenceOf(live)], applied)
	if err != nil {
		return nil, nil, err
	}
	return withoutOwnerMarks(live), withoutOwnerMarks(after), nil
}

// withoutOwnerMarks returns an object without the metadata that names its release and its owner.
func withoutOwnerMarks(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetOwnerReferences(nil)
	without := func(fields map[string]string, names ...string) map[string]string {
		for _, name := range names {
			delete(fields, name)
		}
		if len(fields) == 0 {
			return nil
		}
		return fields
	}
	object.SetLabels(without(object.GetLabels(), "app.kubernetes.io/managed-by", "helm.sdk.operatorframework.io/chart"))
	object.SetAnnotations(without(object.GetAnnotations(), "meta.helm.sh/release-name", "meta.helm.sh/release-namespace",
		helm.PrimaryResourceAnnotation, helm.PrimaryResourceTypeAnnotation))
	return object
}
