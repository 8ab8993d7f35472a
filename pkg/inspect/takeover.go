// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/redact"
)

// Intended is the release that an entry of watches.yaml makes for an object.
type Intended struct {
	Chart  *chart.Chart
	Values map[string]any
	// Overridden are the values that the entry sets over those of the object. They count as secret.
	Overridden map[string]any
}

// Takeover compares the live objects of a release of another operator with what the takeover of the
// release makes of them. It changes nothing. The marks and owner references that a takeover sets on all
// objects are not part of the comparison.
func (d Differ) Takeover(ctx context.Context, owner *unstructured.Unstructured, h *Handover, intended Intended) ([]Difference, error) {
	before, err := h.recorded.Objects()
	if err != nil {
		return nil, err
	}
	d.Mask = d.masking(ctx, owner, h.recorded).withValues(intended.Values, leaves(intended.Overridden, nil))
	after, err := h.recorded.RenderChart(ctx, intended.Chart, intended.Values, controllerOf(owner), d.Getter)
	if err != nil {
		return nil, redact.Error(slices.Collect(texts(intended.Overridden)), err)
	}
	d.Mask = d.Mask.withSecretsOf(before).withSecretsOf(after)
	d.takesOver = map[Reference]*unstructured.Unstructured{}
	for _, object := range before {
		if err := d.place(object, h.Namespace); err != nil {
			return nil, err
		}
		d.takesOver[ReferenceOf(object)] = object
	}
	return d.compareAll(ctx, owner, plainly(after), before, helm.FieldManager, h.Namespace)
}

// takenOver returns an object before and after a takeover, given the answer to a dry run of the apply.
// A second dry run restores the defaults among the removed fields.
func (d Differ) takenOver(ctx context.Context, live, applied *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	after, err = helm.AfterTakeover(live, d.takesOver[ReferenceOf(live)], applied)
	if err != nil {
		return nil, nil, err
	}
	resource, err := d.resourceOf(live)
	if err != nil {
		return nil, nil, err
	}
	patch, err := replacing(live, after)
	if err != nil {
		return nil, nil, err
	}
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: helm.FieldManager}
	answer, err := resource.Patch(ctx, live.GetName(), types.JSONPatchType, patch, options)
	if err != nil {
		return nil, nil, err
	}
	return withoutOwnerMarks(live), withoutOwnerMarks(answer), nil
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// replacing returns the JSON patch that gives an object the content of another version, except for its
// status and what identifies it.
func replacing(live, after *unstructured.Unstructured) ([]byte, error) {
	patch := []operation{}
	replace := func(path string, before, after map[string]any, skip ...string) {
		for key := range before {
			if _, has := after[key]; !has && !slices.Contains(skip, key) {
				patch = append(patch, operation{Op: "remove", Path: path + pointer(key)})
			}
		}
		for key, value := range after {
			if !slices.Contains(skip, key) && !reflect.DeepEqual(before[key], value) {
				patch = append(patch, operation{Op: "add", Path: path + pointer(key), Value: value})
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

// pointer returns a key as the last part of a JSON pointer.
func pointer(key string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
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

// changesPods reports whether two versions of a workload have different pod templates.
func changesPods(before, after *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "template"}, {"spec", "jobTemplate"}} {
		was, had, _ := unstructured.NestedMap(before.Object, path...)
		is, has, _ := unstructured.NestedMap(after.Object, path...)
		if had && has && !reflect.DeepEqual(was, is) {
			return true
		}
	}
	return false
}
