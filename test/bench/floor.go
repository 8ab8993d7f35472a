// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// shape is what a release of an app looks like, taken from one that the
// operator made: the floor sends the same objects under other names.
type shape struct {
	name    string
	objects []object
	record  []byte
	status  []byte
}

type object struct {
	resource schema.GroupVersionResource
	body     []byte
}

// shapeResources are the kinds of the embedded chart, in Helm's order of
// installing them.
var shapeResources = []schema.GroupVersionResource{
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
}

// sample has the operator install a single app and learns from it.
func (b *bench) sample(ctx context.Context) error {
	if err := b.startOperator(ctx); err != nil {
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
	if err := b.learn(ctx, name); err != nil {
		return err
	}
	if err := apps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := b.apps.await(ctx, benchNamespace, 0, func(*v1alpha1.DemoApp) bool { return true }); err != nil {
		return err
	}
	return b.stopOperator()
}

func (b *bench) learn(ctx context.Context, name string) error {
	client, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return err
	}
	b.shape.name = name
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

// applied strips a live object down to what was applied: the rest is the API
// server's.
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

// as is the body for another app.
func (s shape) as(body []byte, name string) []byte {
	body = bytes.ReplaceAll(body, []byte(`"`+s.name+`"`), []byte(`"`+name+`"`))
	return bytes.ReplaceAll(body, []byte(`"`+benchNamespace+`"`), []byte(`"`+floorNamespace+`"`))
}

// floor is the program that does the least: its workers send the requests of an
// app one after another, as any operator must, and decide nothing.
type floor struct {
	shape   shape
	kube    kubernetes.Interface
	rest    rest.Interface
	dynamic dynamic.Interface
}

func (b *bench) newFloor() (*floor, error) {
	client, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return nil, err
	}
	// The operator sends built-in kinds as protobuf, too.
	builtin := rest.CopyConfig(b.config)
	builtin.ContentType = runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(builtin)
	if err != nil {
		return nil, err
	}
	return &floor{shape: b.shape, kube: kube, dynamic: client, rest: b.demo.DemoV1alpha1().RESTClient()}, nil
}

// install sends the 8 requests of an install.
func (f *floor) install(ctx context.Context, name string) error {
	finalizer := []byte(`{"metadata":{"finalizers":["bench.example.com/floor"]}}`)
	if err := f.patchApp(ctx, name, types.MergePatchType, finalizer); err != nil {
		return err
	}
	return f.revision(ctx, name, 1, f.shape.objects)
}

// upgrade sends the C + 3 requests of an upgrade that changes the ConfigMap and
// the Deployment.
func (f *floor) upgrade(ctx context.Context, name string) error {
	changed := make([]object, 0, 2)
	for _, o := range f.shape.objects {
		switch o.resource.Resource {
		case "configmaps":
			o.body = bytes.ReplaceAll(o.body, []byte("first"), []byte("second"))
		case "deployments":
			o.body = bytes.ReplaceAll(o.body, []byte(`"app.kubernetes.io/instance":`), []byte(`"bench":"second","app.kubernetes.io/instance":`))
			o.body = bytes.Replace(o.body, []byte(`"matchLabels":{"bench":"second",`), []byte(`"matchLabels":{`), 1)
		default:
			continue
		}
		changed = append(changed, o)
	}
	return f.revision(ctx, name, 2, changed)
}

func (f *floor) revision(ctx context.Context, name string, revision int, objects []object) error {
	secrets := f.kube.CoreV1().Secrets(floorNamespace)
	record := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("floor.%s.v%d", name, revision)},
		Data:       map[string][]byte{"release": f.shape.record},
	}
	record, err := secrets.Create(ctx, record, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	force := true
	for _, o := range objects {
		_, err := f.dynamic.Resource(o.resource).Namespace(floorNamespace).Patch(ctx, name, types.ApplyPatchType,
			f.shape.as(o.body, name), metav1.PatchOptions{FieldManager: "floor", Force: &force, FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			return err
		}
	}
	record.Labels = map[string]string{"status": "deployed"}
	if _, err := secrets.Update(ctx, record, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return f.patchApp(ctx, name, types.ApplyPatchType, f.shape.as(f.shape.status, name), "status")
}

func (f *floor) patchApp(ctx context.Context, name string, kind types.PatchType, body []byte, subresources ...string) error {
	request := f.rest.Patch(kind).Namespace(floorNamespace).Resource("demoapps").Name(name).SubResource(subresources...).Body(body)
	if kind == types.ApplyPatchType {
		request = request.Param("fieldManager", "floor").Param("force", "true")
	}
	result := request.Do(ctx)
	return result.Error()
}

// work runs the load generator, and the floor's workers on what it hands over.
func (b *bench) work(ctx context.Context, load func(then func(string)) error, do func(context.Context, string) error) (time.Duration, error) {
	names := make(chan string, b.size)
	var workers sync.WaitGroup
	errs := make([]error, b.options.workers)
	started := time.Now()
	for i := range b.options.workers {
		workers.Go(func() {
			for name := range names {
				if errs[i] = do(ctx, name); errs[i] != nil {
					return
				}
			}
		})
	}
	err := load(func(name string) { names <- name })
	close(names)
	workers.Wait()
	return time.Since(started), errors.Join(errors.Join(errs...), err)
}

func (b *bench) floorInstall(ctx context.Context) error {
	f, err := b.newFloor()
	if err != nil {
		return err
	}
	before, err := ownCPU()
	if err != nil {
		return err
	}
	b.result.floorInstall, err = b.work(ctx, func(then func(string)) error {
		return b.create(ctx, floorNamespace, b.size, then)
	}, f.install)
	if err != nil {
		return err
	}
	after, err := ownCPU()
	b.result.floorCPU = after - before
	return err
}

func (b *bench) floorUpgrade(ctx context.Context) error {
	f, err := b.newFloor()
	if err != nil {
		return err
	}
	b.result.floorUpgrade, err = b.work(ctx, func(then func(string)) error {
		return b.change(ctx, floorNamespace, "second", then)
	}, f.upgrade)
	return err
}

// clearFloor removes what the floor made, so that the operator, like the floor,
// begins on a cluster without the other's objects: with their number grows what
// each request costs the control plane.
func (b *bench) clearFloor(ctx context.Context) error {
	apps := b.demo.DemoV1alpha1().DemoApps(floorNamespace)
	err := b.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := apps.Patch(ctx, appName(i), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	namespaces := b.kube.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, floorNamespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	return poll(ctx, time.Second, func() (bool, error) {
		_, err := namespaces.Get(ctx, floorNamespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}
