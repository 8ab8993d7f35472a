// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// requestCounter counts an engine's requests about objects, without watches.
type requestCounter struct {
	mu       sync.Mutex
	requests []string
}

// get makes the counter see an engine's requests.
func (c *requestCounter) get(config *helm.Config) {
	config.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(sent *http.Request) (*http.Response, error) {
			if !sent.URL.Query().Has("watch") && targetOf(sent.URL.Path).Resource != "" {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.requests = append(c.requests, sent.Method+" "+sent.URL.Path)
			}
			return next.RoundTrip(sent)
		})
	})
}

// take returns the requests since the last call.
func (c *requestCounter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.requests
	c.requests = nil
	return taken
}

// watchLists is the first minor version of Kubernetes whose watches begin with a list. On older ones, each
// new watch of the engine adds a list to the requests.
const watchLists = 34

// atMost asserts that there were no more requests since the last call.
func (c *requestCounter) atMost(t *testing.T, operation string, limit int) {
	t.Helper()
	if requests := c.take(); len(requests) > limit && shared.Minor() >= watchLists {
		t.Errorf("%s: %d requests, want at most %d: %q", operation, len(requests), limit, requests)
	}
}

// controlled is a chart with objects that the cluster's controllers write, too.
type controlled struct {
	chart string
	// act plays in a namespace the controllers that the control plane lacks, and waits for the
	// controllers that it has.
	act func(ctx context.Context, t testing.TB, namespace, message string)
	// check fails when the fields of controllers are not as act left them.
	check func(ctx context.Context, namespace string) error
	// ignore has rules for fields that both the chart and controllers write.
	ignore []helm.IgnoreRule
	// objects and changed are the numbers of objects that an install creates and an upgrade
	// changes. hooks is the number of hooks in either.
	objects, changed, hooks int
	// drift changes an object of the release as another client.
	drift func(ctx context.Context, namespace string) error
}

var (
	webhookKinds = []schema.GroupVersionResource{
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	apiServices  = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// caBundle is a base64-encoded certificate for controllers to inject. Its content is not read for
// services that do not answer.
const caBundle = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJlakNDQVIrZ0F3SUJBZ0lCQVRBS0JnZ3Foa2pPUFFRREFqQU5NUXN3Q1FZRFZRUURFd0pqWVRBZQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="

// clusterName returns the name of a cluster-scoped object of the release in a namespace.
func clusterName(namespace string) string { return namespace + "-" + releaseName }

// injectCA writes a CA bundle into the webhooks, as the CA injector of cert-manager does.
func injectCA(ctx context.Context, t testing.TB, namespace, _ string) {
	t.Helper()
	patch := []byte(`[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "` + caBundle + `"}]`)
	for _, kind := range webhookKinds {
		_, err := shared.Dynamic.Resource(kind).
			Patch(ctx, clusterName(namespace), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "cert-manager-cainjector"})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkCA(ctx context.Context, namespace string) error {
	for _, kind := range webhookKinds {
		live, err := shared.Dynamic.Resource(kind).Get(ctx, clusterName(namespace), metav1.GetOptions{})
		if err != nil {
			return err
		}
		webhooks, _, err := unstructured.NestedSlice(live.Object, "webhooks")
		if err != nil || len(webhooks) != 1 {
			return fmt.Errorf("webhooks are %v, error %w", webhooks, err)
		}
		got, _, err := unstructured.NestedString(webhooks[0].(map[string]any), "clientConfig", "caBundle")
		if err != nil || got != caBundle {
			return fmt.Errorf("caBundle of %s is %q, error %w", kind.Resource, got, err)
		}
	}
	return nil
}

// awaitRules waits until kube-controller-manager has written the aggregated rules.
func awaitRules(ctx context.Context, t testing.TB, namespace, message string) {
	t.Helper()
	cluster.Eventually(ctx, t, "aggregated rules", func(ctx context.Context) (bool, error) {
		err := checkRules(ctx, namespace, message)
		return err == nil, err
	})
}

func checkRules(ctx context.Context, namespace, message string) error {
	for _, suffix := range []string{"-with-rules", "-without-rules"} {
		live, err := shared.Dynamic.Resource(clusterRoles).Get(ctx, clusterName(namespace)+suffix, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if rules := fmt.Sprint(live.Object["rules"]); !strings.Contains(rules, message) {
			return fmt.Errorf("rules of %s are %s, want %q", live.GetName(), rules, message)
		}
	}
	return nil
}

// scaledReplicas is the number of replicas that the autoscaler of the test sets.
const scaledReplicas = 4

// scale scales the Deployments, as an autoscaler does.
func scale(ctx context.Context, t testing.TB, namespace, _ string) {
	t.Helper()
	for _, name := range []string{"free", "fixed"} {
		scale := &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: scaledReplicas},
		}
		options := metav1.UpdateOptions{FieldManager: "kube-controller-manager"}
		if _, err := shared.Client.AppsV1().Deployments(namespace).UpdateScale(ctx, name, scale, options); err != nil {
			t.Fatal(err)
		}
	}
}

func checkScale(ctx context.Context, namespace string) error {
	for _, name := range []string{"free", "fixed"} {
		live, err := shared.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if *live.Spec.Replicas != scaledReplicas {
			return fmt.Errorf("deployment %s has %d replicas, want %d", name, *live.Spec.Replicas, scaledReplicas)
		}
	}
	return nil
}

// edit returns a function that changes an object of the release as another client.
func edit(kind schema.GroupVersionResource, name func(namespace string) string, namespaced bool, patch string) func(context.Context, string) error {
	return func(ctx context.Context, namespace string) error {
		client := shared.Dynamic.Resource(kind).Namespace("")
		if namespaced {
			client = shared.Dynamic.Resource(kind).Namespace(namespace)
		}
		_, err := client.Patch(ctx, name(namespace), types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: otherManager})
		return err
	}
}

// named returns a function that returns a fixed name.
func named(name string) func(string) string { return func(string) string { return name } }

// TestFieldsOfControllers deploys charts whose objects controllers write, too. These fields are no
// drift, survive upgrades and repairs, and cause no request. Real drift of the same objects is
// corrected.
func TestFieldsOfControllers(t *testing.T) {
	t.Parallel()
	none := func(context.Context, testing.TB, string, string) {}
	ignored := []helm.IgnoreRule{{Kind: "Deployment", Name: "fixed", Paths: []string{"/spec/replicas"}}}
	tests := map[string]controlled{
		"CA bundles of webhooks": {
			chart: "webhooks", act: injectCA, check: checkCA, objects: 4, changed: 1, hooks: 8,
			drift: edit(webhookKinds[0], clusterName, false, `[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 9}]`),
		},
		"aggregated rules, policies": {
			chart: "policies", act: awaitRules, check: func(context.Context, string) error { return nil }, objects: 6, changed: 2,
			drift: edit(clusterRoles, func(namespace string) string { return clusterName(namespace) + "-with-rules" }, false,
				`[{"op": "replace", "path": "/aggregationRule/clusterRoleSelectors/0/matchLabels", "value": {"a": "b"}}]`),
		},
		"autoscaled replicas, volume claims": {
			chart: "scaled", act: scale, check: checkScale, ignore: ignored, objects: 5, changed: 3,
			drift: edit(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, named("stateful"), true,
				`[{"op": "replace", "path": "/spec/replicas", "value": 0}]`),
		},
		"200 objects": {
			chart: "many", act: none, check: func(context.Context, string) error { return nil }, objects: 200, changed: 16,
			drift: edit(configMaps, named("many-7"), true, `[{"op": "replace", "path": "/data/message", "value": "drifted"}]`),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.play(t)
		})
	}
}

// play installs, upgrades, repairs and uninstalls the chart.
func (c controlled) play(t *testing.T) {
	t.Helper()
	// The hook of an earlier run is looked for, deleted and awaited. The hook is created, awaited,
	// recorded and deleted.
	const requestsPerHook = 7
	var counter requestCounter
	e := newEngine(t, newNamespace(t), everywhere, counter.get)
	act := func(desired helm.Release) {
		t.Helper()
		c.act(t.Context(), t, e.namespace, desired.Values["message"].(string))
		if len(c.ignore) > 0 {
			// The first correction adopts the live values of ignored fields.
			e.await("change of ignored fields", func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) > 0 })
			if err := e.converge(t.Context(), desired); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.check(t.Context(), e.namespace); err != nil {
			t.Error(err)
		}
		e.rests(desired, &counter)
	}
	deploy := func(message string) helm.Release {
		desired := e.desired(readChart(t, c.chart), values{"message": message, "count": 8})
		desired.Ignore = c.ignore
		if err := e.pass(t.Context(), desired); err != nil {
			t.Fatal(err)
		}
		return desired
	}

	desired := deploy("one")
	counter.atMost(t, "install", c.objects+requestsPerHook*c.hooks+6)
	act(desired)

	desired = deploy("two")
	counter.atMost(t, "upgrade", c.changed+requestsPerHook*c.hooks+len(c.ignore)+5)
	if err := c.check(t.Context(), e.namespace); err != nil {
		t.Errorf("after the upgrade: %v", err)
	}
	if len(c.ignore) == 0 {
		act(desired)
	}
	e.rests(desired, &counter)

	if err := c.drift(t.Context(), e.namespace); err != nil {
		t.Fatal(err)
	}
	e.await("drift", func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) > 0 })
	counter.take()
	if err := e.pass(t.Context(), desired); err != nil || e.last.Action != helm.ActionRepair || len(e.last.Drifts) != 1 {
		t.Errorf("decided to %s of %v, error %v, want a repair of one object", e.last.Action, e.last.Drifts, err)
	}
	counter.atMost(t, "repair", 3)
	if err := c.check(t.Context(), e.namespace); err != nil {
		t.Errorf("after the repair: %v", err)
	}
	e.rests(desired, &counter)

	if err := e.uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := look(t.Context(), t, e, nil); len(left.Objects) > 0 || len(left.Records) > 0 {
		t.Errorf("after the uninstall, objects %v and records %v are left", slices.Sorted(maps.Keys(left.Objects)), left.Records)
	}
}

// rests asserts that the engine finds no action and sends no request, also after a restart, when it
// has seen every earlier write.
func (e *engine) rests(desired helm.Release, counter *requestCounter) {
	e.t.Helper()
	e.restart()
	// The watches of the objects' kinds begin with the first observation.
	e.await("the release at rest", func(snapshot helm.Snapshot) bool { return len(snapshot.Drifts) == 0 })
	counter.take()
	e.assertAsDesired(desired)
	counter.atMost(e.t.(*testing.T), "rest", 0)
}
