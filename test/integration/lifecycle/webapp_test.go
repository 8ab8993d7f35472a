// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	exampleclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/example/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// webApps are the WebApps of a test's namespace.
type webApps struct {
	t         *testing.T
	namespace string
	client    exampleclient.WebAppInterface
}

// newWebApps installs the kind and creates a namespace. Call it before starting an operator: the
// WebApps are then removed after the last operator has ended.
func newWebApps(t *testing.T) *webApps {
	t.Helper()
	err := errors.Join(
		shared.InstallCRDs(t.Context(), "artifacts/crds", "artifacts/kinds/webapp/crd.yaml"),
		shared.ApplyFiles(t.Context(), "", "artifacts/kinds/webapp/rbac.yaml"),
	)
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := shared.Namespace(t)
	w := &webApps{t: t, namespace: namespace, client: client.ExampleV1().WebApps(namespace)}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		left, err := w.client.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		for i := range left.Items {
			_, err := w.client.Patch(ctx, left.Items[i].Name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	return w
}

func (w *webApps) create(name, image string) {
	w.t.Helper()
	_, err := w.client.Create(w.t.Context(), &examplev1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: examplev1.WebAppSpec{Replicas: 1, Image: image},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *webApps) setImage(name, image string) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"image":%q}}`, image)
	if _, err := w.client.Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// await returns a WebApp once Ready has the reason for its newest spec, and the message contains
// part.
func (w *webApps) await(name, reason, part string) *examplev1.WebApp {
	w.t.Helper()
	var found *examplev1.WebApp
	cluster.Eventually(w.t.Context(), w.t, name+" is "+reason+" with "+part, func(ctx context.Context) (bool, error) {
		var err error
		if found, err = w.client.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(found.Status.Conditions, "Ready")
		if ready == nil || ready.ObservedGeneration != found.Generation || ready.Reason != reason || !strings.Contains(ready.Message, part) {
			return false, fmt.Errorf("status is %+v", found.Status)
		}
		return true, nil
	})
	return found
}

// hasDeployment reports whether the Deployment of a WebApp exists, and its image.
func (w *webApps) hasDeployment(name string) (image string, exists bool) {
	w.t.Helper()
	found, err := shared.Client.AppsV1().Deployments(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return found.Spec.Template.Spec.Containers[0].Image, true
}

// TestWebAppBlockedImages restarts the operator with other lists of blocked images.
func TestWebAppBlockedImages(t *testing.T) {
	apps := newWebApps(t)
	operator := cluster.StartOperator(t.Context(), t, shared, "--controllers=webapp")
	apps.create("runs", "nginx:1")
	apps.create("changes", "caddy:2")
	apps.await("runs", apimeta.ReasonHealthy, "")
	apps.await("changes", apimeta.ReasonHealthy, "")
	operator.Stop()

	operator = cluster.StartOperator(t.Context(), t, shared, "--controllers=webapp", "--blocked-images=docker.io/library/nginx,redis:7")
	apps.create("new", "nginx:2")
	apps.setImage("changes", "redis:7")
	running := apps.await("runs", examplev1.ReasonImageBlocked, `spec.image: "nginx:1" is blocked by "docker.io/library/nginx"`)
	changed := apps.await("changes", examplev1.ReasonImageBlocked, `spec.image: "redis:7" is blocked by "redis:7"`)
	fresh := apps.await("new", examplev1.ReasonImageBlocked, `spec.image: "nginx:2" is blocked by "docker.io/library/nginx"`)
	if running.Status.Phase != examplev1.PhaseRunning || changed.Status.Phase != examplev1.PhaseRunning || fresh.Status.Phase != examplev1.PhasePending {
		t.Errorf("phases are %q, %q and %q", running.Status.Phase, changed.Status.Phase, fresh.Status.Phase)
	}
	if image, _ := apps.hasDeployment("runs"); image != "nginx:1" {
		t.Errorf("runs has the image %q", image)
	}
	if image, _ := apps.hasDeployment("changes"); image != "caddy:2" {
		t.Errorf("changes has the image %q", image)
	}
	if _, exists := apps.hasDeployment("new"); exists {
		t.Error("new has a Deployment")
	}
	metrics, err := operator.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`webapps_with_blocked_image{entry="docker.io/library/nginx"} 2`, `webapps_with_blocked_image{entry="redis:7"} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics have no line %s", line)
		}
	}
	for _, name := range []string{"runs", "changes", "new"} {
		named := func(line string) bool {
			return strings.Contains(line, "The image of the WebApp is blocked") && strings.Contains(line, "object.name="+name+" object.namespace="+apps.namespace)
		}
		if !slices.ContainsFunc(slices.Collect(strings.Lines(operator.Log())), named) {
			t.Errorf("the log does not name %s", name)
		}
	}
	apps.setImage("new", "caddy:2")
	apps.await("new", apimeta.ReasonHealthy, "")
	operator.Stop()

	operator = cluster.StartOperator(t.Context(), t, shared, "--controllers=webapp")
	apps.await("runs", apimeta.ReasonHealthy, "")
	apps.await("changes", apimeta.ReasonHealthy, "")
	if image, _ := apps.hasDeployment("changes"); image != "redis:7" {
		t.Errorf("changes has the image %q, want the one that was blocked", image)
	}
	operator.Stop()
}
