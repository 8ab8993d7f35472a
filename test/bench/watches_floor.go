// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// sampleRelease installs one release and reads its shape for the floor, which uses the first kind alone.
func (b *watchesBench) sampleRelease(ctx context.Context, binary string) error {
	if err := b.startOperator(ctx, binary); err != nil {
		return err
	}
	const name = "sample"
	resources := b.dynamic.Resource(b.resource(0)).Namespace(benchNamespace)
	if _, err := resources.Create(ctx, b.custom(0, name), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.states.await(ctx, 1, isDeployed); err != nil {
		return err
	}
	b.shape.name, b.shape.owner = name, b.resource(0)
	for _, resource := range []string{"secrets", "configmaps", "services"} {
		live, err := b.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(benchNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		body, err := applied(live)
		if err != nil {
			return err
		}
		b.shape.objects = append(b.shape.objects, object{resource: schema.GroupVersionResource{Version: "v1", Resource: resource}, body: body})
	}
	record, err := b.kube.CoreV1().Secrets(benchNamespace).Get(ctx, "sh.helm.release.v1."+name+".v1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	b.shape.record = record.Data["release"]
	live, err := resources.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if b.shape.status, err = json.Marshal(map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(),
		"metadata": map[string]any{"name": name, "namespace": benchNamespace}, "status": live.Object["status"],
	}); err != nil {
		return err
	}
	if err := resources.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := b.states.await(ctx, 0, nil); err != nil {
		return err
	}
	return b.stopOperator()
}

// runFloor measures the floor. All its releases are of the first kind.
func (b *watchesBench) runFloor(ctx context.Context, f *watchesFigures) error {
	sender, err := b.newFloor()
	if err != nil {
		return err
	}
	first := &watchesBench{bench: b.bench, kinds: 1, dynamic: b.dynamic}
	if f.floorInstall, err = b.work(ctx, func(then func(string)) error { return first.createAll(ctx, floorNamespace, then) }, sender.install); err != nil {
		return err
	}
	if f.floorUpgrade, err = b.work(ctx, func(then func(string)) error { return first.changeAll(ctx, floorNamespace, then) }, sender.upgrade); err != nil {
		return err
	}
	// Namespaces are not removed while finalizers are left.
	if err := b.bench.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := b.dynamic.Resource(b.resource(0)).Namespace(floorNamespace).Patch(ctx, appName(i), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	}); err != nil {
		return err
	}
	return b.clear(ctx)
}

// isDeployed reports whether the current spec is deployed.
func isDeployed(object *unstructured.Unstructured) bool {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	var typed releasev1alpha1.ReleaseStatus
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &typed)
	return err == nil && typed.ObservedGeneration == object.GetGeneration() &&
		meta.IsStatusConditionTrue(typed.Conditions, releasev1alpha1.ConditionDeployed)
}

// isUpgraded reports whether the changed spec is deployed.
func isUpgraded(object *unstructured.Unstructured) bool {
	message, _, _ := unstructured.NestedString(object.Object, "spec", "message")
	return message == "second" && isDeployed(object)
}
