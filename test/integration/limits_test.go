// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/integration/apps"
)

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
