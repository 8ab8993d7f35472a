// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"pgregory.net/rapid"
)

// modelKinds are the kinds of the objects in chart faults.
var modelKinds = map[string]schema.GroupVersionResource{
	"ConfigMap":      {Version: "v1", Resource: "configmaps"},
	"Secret":         {Version: "v1", Resource: "secrets"},
	"ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
}

// modelObject names an object of chart faults.
type modelObject struct{ kind, name string }

var modelObjects = []modelObject{
	{"ConfigMap", "first"}, {"ConfigMap", "second"}, {"Secret", "changes"}, {"ServiceAccount", "stays"},
}

func drawObject(rt *rapid.T) modelObject {
	return rapid.SampledFrom(modelObjects).Draw(rt, "object")
}

// modelOf returns the objects that chart faults renders from values: the data of each object.
func modelOf(desired values) map[modelObject]any {
	model := map[modelObject]any{}
	if desired == nil {
		return model
	}
	message := desired["message"].(string)
	for _, name := range []string{"first", "second"} {
		if desired[name].(bool) {
			model[modelObject{"ConfigMap", name}] = map[string]any{"message": message}
		}
	}
	model[modelObject{"Secret", "changes"}] = map[string]any{"message": base64.StdEncoding.EncodeToString([]byte(message))}
	model[modelObject{"ServiceAccount", "stays"}] = nil
	return model
}

func (r *modeled) client(kind string) dynamic.ResourceInterface {
	return shared.Dynamic.Resource(modelKinds[kind]).Namespace(r.namespace)
}

// compare compares the release with its model.
func (r *modeled) compare(ctx context.Context) error {
	got := map[modelObject]any{}
	for _, kind := range slices.Sorted(maps.Keys(modelKinds)) {
		list, err := r.client(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			object := &list.Items[i]
			leftHook := r.interrupted && r.desired == nil && object.GetAnnotations()["helm.sh/hook"] != ""
			if leftHook || !ofRelease(object, r.namespace) {
				continue
			}
			got[modelObject{kind, object.GetName()}] = object.Object["data"]
			if !r.marked(object) {
				return fmt.Errorf("%s %s lacks the release's marks", kind, object.GetName())
			}
		}
	}
	if diff := cmp.Diff(modelOf(r.desired), got, cmp.AllowUnexported(modelObject{})); diff != "" {
		return fmt.Errorf("the objects differ from the model (-want +got):\n%s", diff)
	}
	return r.compareRecords(ctx)
}

func (r *modeled) marked(object *unstructured.Unstructured) bool {
	return object.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" &&
		object.GetAnnotations()["meta.helm.sh/release-name"] == releaseName &&
		object.GetAnnotations()["meta.helm.sh/release-namespace"] == r.namespace
}

// compareRecords asserts that only the newest revision is deployed.
func (r *modeled) compareRecords(ctx context.Context) error {
	list, err := r.client("Secret").List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return err
	}
	newest, statuses := 0, map[int]string{}
	for i := range list.Items {
		labels := list.Items[i].GetLabels()
		revision, err := strconv.Atoi(labels["version"])
		if err != nil {
			return err
		}
		newest = max(newest, revision)
		statuses[revision] = labels["status"]
	}
	if r.desired == nil {
		if len(statuses) > 0 {
			return fmt.Errorf("records are left: %v", statuses)
		}
		return nil
	}
	for revision, status := range statuses {
		if (status == "deployed") != (revision == newest) {
			return fmt.Errorf("want only the newest revision deployed: %v", statuses)
		}
	}
	return nil
}

func (r *modeled) deleteOne(ctx context.Context, object modelObject) error {
	return ignoreNotFound(r.client(object.kind).Delete(ctx, object.name, metav1.DeleteOptions{}))
}

func (r *modeled) changeOne(ctx context.Context, object modelObject, patch string) error {
	_, err := r.client(object.kind).
		Patch(ctx, object.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: otherManager})
	return ignoreNotFound(err)
}

// replaceOne recreates the object with its marks and other content.
func (r *modeled) replaceOne(ctx context.Context, object modelObject) error {
	live, err := r.client(object.kind).Get(ctx, object.name, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	if err := r.deleteOne(ctx, object); err != nil {
		return err
	}
	live.SetUID("")
	live.SetResourceVersion("")
	live.SetManagedFields(nil)
	delete(live.Object, "data")
	_, err = r.client(object.kind).Create(ctx, live, metav1.CreateOptions{FieldManager: otherManager})
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
