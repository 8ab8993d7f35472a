// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package admission

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/webappcases"
)

const (
	goodImage = "nginx:1.27-alpine"
	badImage  = "quay.io/any/image"
)

// TestAPIServerRestartsWhileWebhookIsAway holds that no WebApp bypasses the rules, and that
// existing ones can be deleted.
func TestAPIServerRestartsWhileWebhookIsAway(t *testing.T) {
	awaitNoRules(t.Context(), t)
	removeAtEnd(t)
	old := newWebApp(webappcases.Ordinary, "old", badImage)
	old.SetFinalizers([]string{"example.com/test"})
	if _, err := create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	e := newEndpoint(t)
	running := e.operator(t)
	e.install(t)
	awaitRules(t, true)

	if code := running.Stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	assertRefusedWithoutWebhook(t, "while the webhook is away")
	shared.RestartAPIServer(t.Context(), t)
	assertRefusedWithoutWebhook(t, "after the restart of the API server")
	assertExistingCanGo(t)
	if _, err := create(t.Context(), newWebApp(webappcases.System, "spared", badImage)); err != nil {
		t.Errorf("a system namespace is not spared: %v", err)
	}

	e.operator(t)
	awaitRules(t, true)
	stored, err := create(t.Context(), newWebApp(webappcases.Ordinary, "good", goodImage))
	if err != nil || stored.GetLabels()["version"] != "v1" {
		t.Errorf("the webhook is back, and stored is %v, %v", stored, err)
	}
}

// assertRefusedWithoutWebhook tries to create and to change WebApps with good and bad images.
func assertRefusedWithoutWebhook(t *testing.T, when string) {
	t.Helper()
	for kind := range webappcases.Namespaces {
		if kind == webappcases.System {
			continue
		}
		for name, image := range map[string]string{"good": goodImage, "bad": badImage} {
			_, err := create(t.Context(), newWebApp(kind, name, image))
			assertWebhookFailed(t, err, name+" in "+string(kind)+" "+when)
		}
	}
	patch := []byte(`{"spec":{"replicas":2}}`)
	_, err := webApps(webappcases.Namespaces[webappcases.Ordinary]).
		Patch(t.Context(), "old", types.MergePatchType, patch, metav1.PatchOptions{})
	t.Logf("%s: %v", when, err)
	assertWebhookFailed(t, err, "change of the spec "+when)
	for kind, namespace := range webappcases.Namespaces {
		list, err := webApps(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if list.Items[i].GetName() != "old" {
				t.Errorf("%s: %s was stored in %s", when, list.Items[i].GetName(), kind)
			}
		}
	}
}

// assertWebhookFailed asserts that the message names the webhook and why it did not answer.
func assertWebhookFailed(t *testing.T, err error, what string) {
	t.Helper()
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") ||
		!strings.Contains(err.Error(), ".webapps.example.com") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%s: error = %v", what, err)
	}
}

// assertExistingCanGo annotates and deletes the WebApp that breaks the rules, and removes its
// finalizer.
func assertExistingCanGo(t *testing.T) {
	t.Helper()
	client := webApps(webappcases.Namespaces[webappcases.Ordinary])
	patch := func(text string) {
		t.Helper()
		if _, err := client.Patch(t.Context(), "old", types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	patch(`{"metadata":{"annotations":{"note":"changed"}}}`)
	if err := client.Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	patch(`{"metadata":{"finalizers":null}}`)
	cluster.Eventually(t.Context(), t, "the WebApp is gone", func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, "old", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}
