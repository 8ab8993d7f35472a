// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package admission

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/webappcases"
)

// artifacts is the folder of the tested files.
const artifacts = "artifacts/kinds/webapp/admission/"

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Audit: true}, func(c *cluster.Cluster) {
		shared = c
		t := &cluster.MainTest{}
		defer t.CleanUp()
		err := errors.Join(
			shared.InstallCRDs(t.Context(), "artifacts/kinds/webapp/crd.yaml"),
			shared.ApplyFiles(t.Context(), "", "artifacts/deploy/00-namespace.yaml", artifacts+"rbac.yaml"),
		)
		if err != nil {
			t.Fatal(err)
		}
		createNamespaces(t)
	}))
}

// createNamespaces creates the namespaces of the cases.
func createNamespaces(t testing.TB) {
	t.Helper()
	for kind, name := range webappcases.Namespaces {
		if kind == webappcases.System {
			continue
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: webappcases.NamespaceLabels(kind)}}
		if _, err := shared.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// webApps returns a client for a namespace.
func webApps(namespace string) dynamic.ResourceInterface {
	return shared.Dynamic.Resource(examplev1.SchemeGroupVersion.WithResource("webapps")).Namespace(namespace)
}

// newWebApp returns a WebApp with an image.
func newWebApp(kind webappcases.Kind, name, image string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1), "image": image}}}
	object.SetGroupVersionKind(examplev1.SchemeGroupVersion.WithKind("WebApp"))
	object.SetNamespace(webappcases.Namespaces[kind])
	object.SetName(name)
	return object
}

func create(ctx context.Context, object *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	return webApps(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{DryRun: dryRun})
}

// removeAtEnd removes all WebApps at the end of the test, after the rules.
func removeAtEnd(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		awaitNoRules(ctx, t)
		for _, namespace := range webappcases.Namespaces {
			list, err := webApps(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				remove(ctx, t, &list.Items[i])
			}
		}
	})
}

func remove(ctx context.Context, t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	client, name := webApps(object.GetNamespace()), object.GetName()
	if len(object.GetFinalizers()) > 0 {
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// endpoint is where the operators of a test serve the webhook.
type endpoint struct{ address string }

func newEndpoint(t *testing.T) endpoint {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return endpoint{address: listener.Addr().String()}
}

// operator starts an operator that serves the webhook, and waits until it is ready.
func (e endpoint) operator(t *testing.T, args ...string) *cluster.Operator {
	t.Helper()
	return cluster.StartOperator(t.Context(), t, shared, append([]string{
		"--webhook-bind-address=" + e.address, "--webhook-hosts=127.0.0.1",
		"--approved-registries=" + strings.Join(webappcases.Registries, ","),
	}, args...)...)
}

// install installs the webhook configurations until the end of the test. The Service has no pods
// here, so the API server calls the address instead. All other fields are as in webhook.yaml.
func (e endpoint) install(t *testing.T) {
	t.Helper()
	objects, err := shared.Objects(artifacts + "webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Service" })
	for _, object := range objects {
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range webhooks {
			webhook, _ := item.(map[string]any)
			path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			if err != nil || path == "" {
				t.Fatalf("no path of a Service in %v (%v)", webhook, err)
			}
			webhook["clientConfig"] = map[string]any{"url": "https://" + e.address + path}
		}
		if err := unstructured.SetNestedSlice(object.Object, webhooks, "webhooks"); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, objects)
}

// apply applies objects until the end of the test.
func apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if err := shared.ApplyObject(t.Context(), "", object); err != nil {
			t.Fatal(err)
		}
		mapping, err := shared.Mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			client := shared.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
			if err := client.Delete(context.WithoutCancel(t.Context()), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitRules waits until the API server applies all rules in all namespaces, with the defaults if it
// should set them.
func awaitRules(t *testing.T, defaults bool) {
	t.Helper()
	for kind := range webappcases.Namespaces {
		if kind == webappcases.System {
			continue
		}
		cluster.Eventually(t.Context(), t, "the rules hold in "+string(kind), func(ctx context.Context) (bool, error) {
			_, err := create(ctx, newWebApp(kind, "probe", "quay.io/any/image"), metav1.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "spec.image: image quay.io/any/image is not from an allowed registry") {
				return false, fmt.Errorf("validation: %w", err)
			}
			good := newWebApp(kind, "probe", "nginx")
			limits := map[string]any{"cpu": "1", "memory": "1Gi"}
			if err := unstructured.SetNestedMap(good.Object, limits, "spec", "resources", "limits"); err != nil {
				return false, err
			}
			stored, err := create(ctx, good, metav1.DryRunAll)
			return err == nil && (!defaults || stored.GetLabels()["managed-by"] != ""), err
		})
	}
}

// awaitNoRules waits until the API server applies no rules of an earlier test.
func awaitNoRules(ctx context.Context, t *testing.T) {
	t.Helper()
	for kind := range webappcases.Namespaces {
		cluster.Eventually(ctx, t, "no rules hold in "+string(kind), func(ctx context.Context) (bool, error) {
			stored, err := create(ctx, newWebApp(kind, "probe", "quay.io/any/image"), metav1.DryRunAll)
			return err == nil && len(stored.GetLabels()) == 0, err
		})
	}
}
