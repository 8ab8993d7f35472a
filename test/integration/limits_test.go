// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestSpecOutsideTheLimitsIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*v1alpha1.DemoApp)
		// field is the field that the API server must name. Rules about a name can only point to
		// the metadata as a whole.
		field string
	}{
		{"replicaCount below", func(app *v1alpha1.DemoApp) { app.Spec.ReplicaCount = ptr.To[int32](-1) }, "spec.replicaCount"},
		{"replicaCount above", func(app *v1alpha1.DemoApp) { app.Spec.ReplicaCount = ptr.To[int32](101) }, "spec.replicaCount"},
		{"image with a space", func(app *v1alpha1.DemoApp) { app.Spec.Image = "nginx: latest" }, "spec.image"},
		{"image in upper case", func(app *v1alpha1.DemoApp) { app.Spec.Image = "Nginx" }, "spec.image"},
		{"image too long", func(app *v1alpha1.DemoApp) { app.Spec.Image = strings.Repeat("x", 513) }, "spec.image"},
		{"message too long", func(app *v1alpha1.DemoApp) { app.Spec.Message = strings.Repeat("x", 4097) }, "spec.message"},
		{"apiKey too short", func(app *v1alpha1.DemoApp) { app.Spec.APIKey = "1234567" }, "spec.apiKey"},
		{"apiKey too long", func(app *v1alpha1.DemoApp) { app.Spec.APIKey = strings.Repeat("x", 1025) }, "spec.apiKey"},
		{"no key", func(app *v1alpha1.DemoApp) { app.Spec.APIKey = "" }, "spec.apiKey"},
		{"both keys", func(app *v1alpha1.DemoApp) {
			app.Spec.APIKeyFrom = &v1alpha1.SecretKeyReference{Name: "secret", Key: "key"}
		}, "spec.apiKeyFrom"},
		{"apiKeyFrom without a name", func(app *v1alpha1.DemoApp) {
			app.Spec.APIKey, app.Spec.APIKeyFrom = "", &v1alpha1.SecretKeyReference{Key: "key"}
		}, "spec.apiKeyFrom.name"},
		{"apiKeyFrom with a wrong name", func(app *v1alpha1.DemoApp) {
			app.Spec.APIKey, app.Spec.APIKeyFrom = "", &v1alpha1.SecretKeyReference{Name: "other/secret", Key: "key"}
		}, "spec.apiKeyFrom.name"},
		{"apiKeyFrom without a key", func(app *v1alpha1.DemoApp) {
			app.Spec.APIKey, app.Spec.APIKeyFrom = "", &v1alpha1.SecretKeyReference{Name: "secret"}
		}, "spec.apiKeyFrom.key"},
		{"service.type", func(app *v1alpha1.DemoApp) { app.Spec.Service.Type = "ExternalName" }, "spec.service.type"},
		{"service.port below", func(app *v1alpha1.DemoApp) { app.Spec.Service.Port = -1 }, "spec.service.port"},
		{"service.port above", func(app *v1alpha1.DemoApp) { app.Spec.Service.Port = 65536 }, "spec.service.port"},
		{"waitFor no name", func(app *v1alpha1.DemoApp) { app.Spec.WaitFor = "App A" }, "spec.waitFor"},
		{"waitFor too long", func(app *v1alpha1.DemoApp) { app.Spec.WaitFor = strings.Repeat("x", 54) }, "spec.waitFor"},
		{"waitFor itself", func(app *v1alpha1.DemoApp) { app.Spec.WaitFor = app.Name }, "spec.waitFor"},
		{"name too long", func(app *v1alpha1.DemoApp) { app.Name = strings.Repeat("x", 54) }, "metadata"},
		{"name that no Service can have", func(app *v1alpha1.DemoApp) { app.Name = "1web" }, "metadata"},
		{"name with a dot", func(app *v1alpha1.DemoApp) { app.Name = "my.web" }, "metadata"},
	}
	ns := newNamespace(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			app := apps.Named("web")
			test.change(app)
			_, err := ns.Demo.Create(t.Context(), app, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if !apierrors.IsInvalid(err) {
				t.Fatalf("got %v, want it invalid", err)
			}
			if !namesField(err, test.field) {
				t.Errorf("%v does not name %s", err, test.field)
			}
		})
	}
}

func TestSpecAtTheLimitsIsAccepted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	name := "w" + strings.Repeat("e", 51) + "b"
	app := apps.WithoutPods(name)
	app.Spec.Image = "registry.example.com/" + strings.Repeat("x", 512-len("registry.example.com/"))
	app.Spec.Message = strings.Repeat("<", 4096)
	app.Spec.APIKey = strings.Repeat("ä", 1024)
	app.Spec.Service.Port = 65535
	ns.Create(app)
	ready := ns.AwaitReady(name)
	if ready.Status.Replicas != 0 {
		t.Errorf("%d replicas", ready.Status.Replicas)
	}
	if got := string(ns.Objects(name).Secret.Data["apiKey"]); got != app.Spec.APIKey {
		t.Errorf("apiKey has %d bytes, want %d", len(got), len(app.Spec.APIKey))
	}
}

// namesField reports whether the API server's answer names the field.
func namesField(err error, field string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == field })
}
