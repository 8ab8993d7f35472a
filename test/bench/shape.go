// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// shape is the content of one release, read from a release that the operator installed. The floor sends the same objects
// under other names.
type shape struct {
	name string
	// owner is the resource of the custom resources that have the releases.
	owner   schema.GroupVersionResource
	objects []object
	record  []byte
	status  []byte
}

type object struct {
	resource schema.GroupVersionResource
	body     []byte
}

// shapeResources are the kinds of the embedded chart, in Helm's install order.
var shapeResources = []schema.GroupVersionResource{
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
}

// sample lets the operator install one app and reads the shape from it.
func (b *bench) sample(ctx context.Context, binary string) error {
	if err := b.startOperator(ctx, binary); err != nil {
		return err
	}
	const name = "sample"
	apps := b.demo.DemoV1alpha1().DemoApps(benchNamespace)
	if _, err := apps.Create(ctx, newApp(benchNamespace, name), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.apps.await(ctx, benchNamespace, 1, ready); err != nil {
		return err
	}
	if err := b.readShape(ctx, name); err != nil {
		return err
	}
	if err := apps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := b.apps.await(ctx, benchNamespace, 0, exists); err != nil {
		return err
	}
	return b.stopOperator()
}

func (b *bench) readShape(ctx context.Context, name string) error {
	client, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return err
	}
	b.shape.name, b.shape.owner = name, demoApps
	for _, resource := range shapeResources {
		live, err := client.Resource(resource).Namespace(benchNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		body, err := applied(live)
		if err != nil {
			return err
		}
		b.shape.objects = append(b.shape.objects, object{resource: resource, body: body})
	}
	record, err := b.kube.CoreV1().Secrets(benchNamespace).Get(ctx, "sh.helm.release.v1."+name+".v1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	b.shape.record = record.Data["release"]
	app, err := b.demo.DemoV1alpha1().DemoApps(benchNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	b.shape.status, err = json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "DemoApp",
		"metadata": map[string]any{"name": name, "namespace": benchNamespace}, "status": app.Status,
	})
	return err
}

// applied returns the fields of a live object that a client applies, without those that the API server sets.
func applied(live *unstructured.Unstructured) ([]byte, error) {
	for _, field := range [][]string{
		{"status"},
		{"metadata", "managedFields"},
		{"metadata", "uid"},
		{"metadata", "resourceVersion"},
		{"metadata", "generation"},
		{"metadata", "creationTimestamp"},
		{"metadata", "ownerReferences"},
		{"metadata", "annotations", "deployment.kubernetes.io/revision"},
		{"spec", "clusterIP"},
		{"spec", "clusterIPs"},
		{"spec", "ipFamilies"},
		{"spec", "ipFamilyPolicy"},
		{"spec", "internalTrafficPolicy"},
	} {
		unstructured.RemoveNestedField(live.Object, field...)
	}
	return json.Marshal(live.Object)
}

// as returns the body for another app.
func (s shape) as(body []byte, name string) []byte {
	body = bytes.ReplaceAll(body, []byte(`"`+s.name+`"`), []byte(`"`+name+`"`))
	return bytes.ReplaceAll(body, []byte(`"`+benchNamespace+`"`), []byte(`"`+floorNamespace+`"`))
}
