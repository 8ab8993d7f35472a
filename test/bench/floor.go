// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// floor is the program that does the least. Its workers send the requests of an app one after another, as any operator
// must. It decides nothing and reads no answer but its status code.
type floor struct {
	shape  shape
	server string
	client *http.Client
}

// metadataOnly asks for the smallest answer that the API server gives to a write.
const metadataOnly = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// newFloor returns a floor with a pool of HTTP/1.1 connections. One connection for each worker costs both sides less
// processor time than streams of one HTTP/2 connection.
func (b *bench) newFloor() (*floor, error) {
	config := rest.CopyConfig(b.config)
	config.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &floor{shape: b.shape, server: strings.TrimSuffix(config.Host, "/"), client: client}, nil
}

// send sends a request without reading more of the answer than its status code.
func (f *floor) send(ctx context.Context, method, path, contentType string, body []byte) error {
	return f.exchange(ctx, method, path, contentType, metadataOnly, body, io.Discard)
}

// exchange sends a request and copies the answer to a writer.
func (f *floor) exchange(ctx context.Context, method, path, contentType, accept string, body []byte, answer io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, method, f.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", accept)
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		text, err := io.ReadAll(response.Body)
		return errors.Join(fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text), err)
	}
	// A connection goes back to the pool when its answer has been read.
	_, err = io.Copy(answer, response.Body)
	return err
}

// path returns the URL path of an object in the floor's namespace.
func path(resource schema.GroupVersionResource, name string) string {
	root := "/apis/" + resource.Group
	if resource.Group == "" {
		root = "/api"
	}
	return fmt.Sprintf("%s/%s/namespaces/%s/%s/%s", root, resource.Version, floorNamespace, resource.Resource, name)
}

var (
	demoApps = v1alpha1.SchemeGroupVersion.WithResource("demoapps")
	secrets  = corev1.SchemeGroupVersion.WithResource("secrets")
)

// install sends the 8 requests of an install.
func (f *floor) install(ctx context.Context, name string) error {
	finalizer := []byte(`{"metadata":{"finalizers":["bench.example.com/floor"]}}`)
	if err := f.send(ctx, http.MethodPatch, path(f.shape.owner, name), string(types.MergePatchType), finalizer); err != nil {
		return err
	}
	return f.revision(ctx, name, 1, f.shape.objects)
}

// upgrade sends the C + 3 requests of an upgrade that changes the ConfigMap and the Deployment.
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

// revision creates the release record, applies the objects, completes the record and applies the status.
func (f *floor) revision(ctx context.Context, name string, revision int, objects []object) error {
	const apply = "?fieldManager=floor&force=true&fieldValidation=Ignore"
	record := fmt.Sprintf("floor.%s.v%d", name, revision)
	if err := f.sendRecord(ctx, http.MethodPost, path(secrets, ""), record, "pending"); err != nil {
		return err
	}
	for _, o := range objects {
		err := f.send(ctx, http.MethodPatch, path(o.resource, name)+apply, string(types.ApplyPatchType), f.shape.as(o.body, name))
		if err != nil {
			return err
		}
	}
	if err := f.sendRecord(ctx, http.MethodPut, path(secrets, record), record, "deployed"); err != nil {
		return err
	}
	status := f.shape.as(f.shape.status, name)
	return f.send(ctx, http.MethodPatch, path(f.shape.owner, name)+"/status"+apply, string(types.ApplyPatchType), status)
}

// sendRecord sends a release record as protobuf, as the operator does.
func (f *floor) sendRecord(ctx context.Context, method, path, name, status string) error {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		return errors.New("no protobuf serializer")
	}
	record, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"status": status}},
		Data:       map[string][]byte{"release": f.shape.record},
	})
	if err != nil {
		return err
	}
	return f.send(ctx, method, strings.TrimSuffix(path, "/"), runtime.ContentTypeProtobuf, record)
}

// work runs the load generator, and the floor's workers on the apps that it creates or changes.
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

// measureFloor returns the figures of one round of the floor.
func (b *bench) measureFloor(ctx context.Context) (f figures, err error) {
	sender, err := b.newFloor()
	if err != nil {
		return figures{}, err
	}
	before, err := ownCPU()
	if err != nil {
		return figures{}, err
	}
	f.install, err = b.work(ctx, func(then func(string)) error {
		return b.create(ctx, floorNamespace, b.size, then)
	}, sender.install)
	if err != nil {
		return figures{}, err
	}
	after, err := ownCPU()
	if err != nil {
		return figures{}, err
	}
	f.installCPU = after - before
	f.upgrade, err = b.work(ctx, func(then func(string)) error {
		return b.change(ctx, floorNamespace, "second", then)
	}, sender.upgrade)
	if err != nil {
		return figures{}, err
	}
	// Namespaces are not removed while finalizers are left.
	return f, b.each(ctx, b.size, func(ctx context.Context, i int) error {
		_, err := b.demo.DemoV1alpha1().DemoApps(floorNamespace).Patch(ctx, appName(i), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
}
