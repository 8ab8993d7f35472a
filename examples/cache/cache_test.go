// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"

	"github.com/example/demoapp-controller/pkg/operator"
	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
	"github.com/example/demoapp-controller/test/synctestmain"
)

func TestMain(m *testing.M) { synctestmain.Run(m) }

// world runs the operator on a fake API server, in a synctest bubble.
type world struct {
	*fakeapi.Server

	t *testing.T
}

func bubble(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{Server: fakeapi.New(t), t: t}
		w.Serve(cacheKind.GroupVersion().WithResource("caches"), "Cache", true)
		w.Serve(schema.GroupVersionResource{Group: "database.example.com", Version: "v1", Resource: "postgresqls"}, "PostgreSQL", true)
		config, client := w.RESTConfig(), w.HTTPClient()
		kube, err := kubernetes.NewForConfigAndClient(config, client)
		expect.NoError(t, err)
		objects, err := dynamic.NewForConfigAndClient(config, client)
		expect.NoError(t, err)
		identities, err := metadata.NewForConfigAndClient(config, client)
		expect.NoError(t, err)
		stream := events.NewBroadcaster(nil)
		defer stream.Shutdown()
		clients := &operator.Clients{Config: config, HTTP: client, Kube: kube, Dynamic: objects, Metadata: identities}
		registered, err := caches()
		expect.NoError(t, err)
		parts, err := operator.NewEnvironment("caches", clients, nil, stream, prometheus.NewRegistry()).Build(registered)
		expect.NoError(t, err)
		lead := context.WithoutCancel(t.Context())
		stop, cancel := context.WithCancel(lead)
		var running sync.WaitGroup
		for _, service := range parts.Services {
			running.Go(func() { expect.NoError(t, service.Run(stop)) })
		}
		for _, c := range parts.Controllers {
			running.Go(func() { expect.NoError(t, c.Run(stop, lead)) })
		}
		w.settle()
		test(w)
		cancel()
		running.Wait()
	})
}

// settle waits until retries and delayed status writes are done.
func (w *world) settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// set sets fields of an object as another client does, and settles. It creates a missing object.
func (w *world) set(kind, name string, fields map[string]any) {
	w.t.Helper()
	w.Edit(kind, "default/"+name, "kubectl", func(object *unstructured.Unstructured) {
		for field, value := range fields {
			object.Object[field] = value
		}
	})
	w.settle()
}

// field returns a text or a number of an object; nil for a missing one.
func (w *world) field(kind, name string, path ...string) any {
	object := w.Object(kind, "default/"+name)
	if object == nil {
		return nil
	}
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	return value
}

// condition returns status, reason and message of a condition of the Cache "a".
func (w *world) condition(name string) string {
	conditions, _ := w.field("Cache", "a", "status", "conditions").([]any)
	for _, item := range conditions {
		if condition, ok := item.(map[string]any); ok && condition["type"] == name {
			return condition["status"].(string) + " " + condition["reason"].(string) + ": " + condition["message"].(string)
		}
	}
	return ""
}

func TestCache(t *testing.T) {
	bubble(t, func(w *world) {
		w.set("Cache", "a", map[string]any{"spec": map[string]any{
			"size": int64(2), "version": "8.1", "passwordFrom": map[string]any{"name": "keys", "key": "password"},
			"waitFor": []any{map[string]any{"apiVersion": "database.example.com/v1", "kind": "PostgreSQL", "name": "db"}},
		}})
		expect.Contains(t, "Ready without the Secret", w.condition("Ready"), "False SecretNotFound", `Secret "keys"`, `PostgreSQL "db", which does not exist`)

		w.set("Secret", "keys", map[string]any{"data": map[string]any{"password": "aHVudGVyMjI="}}) // hunter22
		expect.Equal(t, "DependencyReady", `False Waiting: Waiting for PostgreSQL "db", which does not exist`, w.condition("DependencyReady"))
		expect.Equal(t, "StatefulSet while it waits", nil, w.field("StatefulSet", "a", "spec", "replicas"))

		w.set("PostgreSQL", "db", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}})
		expect.Equal(t, "DependencyReady in the end", `True DependencyDeployed: PostgreSQL "db" is ready`, w.condition("DependencyReady"))
		expect.Equal(t, "replicas", any(int64(2)), w.field("StatefulSet", "a", "spec", "replicas"))
		expect.Equal(t, "endpoint", any("a.default.svc:6379"), w.field("Cache", "a", "status", "endpoint"))
		checksum := w.field("StatefulSet", "a", "spec", "template", "metadata", "annotations", "checksum/password")

		w.set("Secret", "keys", map[string]any{"data": map[string]any{"password": "b3RoZXJzZWNyZXQ="}}) // othersecret
		if changed := w.field("StatefulSet", "a", "spec", "template", "metadata", "annotations", "checksum/password"); changed == checksum {
			t.Errorf("a new password keeps the pods: %v", changed)
		}

		w.set("Cache", "a", map[string]any{"spec": map[string]any{
			"size": int64(3), "version": "8.1", "passwordFrom": map[string]any{"name": "keys", "key": "password"},
			"upgradeWindow": map[string]any{"schedule": "0 3 1 1 *", "duration": "1h"},
		}})
		expect.Contains(t, "UpgradeHeld", w.condition("UpgradeHeld"), "True OutsideWindow")
		expect.Equal(t, "replicas outside of the window", any(int64(2)), w.field("StatefulSet", "a", "spec", "replicas"))

		w.Delete("Cache", "default/a")
		w.settle()
		expect.Equal(t, "StatefulSet after the deletion", nil, w.field("StatefulSet", "a", "metadata", "name"))
	})
}
