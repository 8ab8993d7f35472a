// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// installMemcacheds installs the kind. The operator runs already, and waits for it.
var installMemcacheds = sync.OnceValue(func() error {
	ctx := context.Background()
	return errors.Join(
		shared.ApplyFiles(ctx, "", "artifacts/kinds/memcached/rbac.yaml"),
		shared.InstallCRDs(ctx, "artifacts/kinds/memcached/crd.yaml"),
	)
})

// memcached is a namespace, whose pods must meet the restricted profile, with the Memcached
// "cache". Its objects are named objectName.
type memcached struct {
	t         *testing.T
	namespace string
	client    dynamic.ResourceInterface
}

const objectName = "cache-memcached"

func newMemcached(t *testing.T) *memcached {
	t.Helper()
	if err := installMemcacheds(); err != nil {
		t.Fatal(err)
	}
	namespace := shared.Namespace(t)
	showLogOnFailure(t, namespace)
	restricted := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, restricted, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: cachev1.GroupName, Version: "v1", Resource: "memcacheds"}
	return &memcached{t: t, namespace: namespace, client: shared.Dynamic.Resource(resource).Namespace(namespace)}
}

func (m *memcached) create(spec map[string]any) {
	m.t.Helper()
	_, err := m.client.Create(m.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": map[string]any{"name": "cache"}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
}

// change applies a merge patch.
func (m *memcached) change(patch string) {
	m.t.Helper()
	if _, err := m.client.Patch(m.t.Context(), "cache", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// await waits until Ready of the current generation has this reason, and returns the Memcached.
func (m *memcached) await(reason string) *unstructured.Unstructured {
	m.t.Helper()
	var live *unstructured.Unstructured
	cluster.Eventually(m.t.Context(), m.t, "the Memcached has reason "+reason, func(ctx context.Context) (bool, error) {
		var err error
		if live, err = m.client.Get(ctx, "cache", metav1.GetOptions{}); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, item := range conditions {
			fields, _ := item.(map[string]any)
			if fields["type"] == apimeta.ConditionReady && fields["reason"] == reason && fields["observedGeneration"] == live.GetGeneration() {
				return true, err
			}
		}
		return false, errors.Join(err, fmt.Errorf("conditions are %v", conditions))
	})
	return live
}

// message awaits the reason, and returns the message of Ready.
func (m *memcached) message(reason string) string {
	m.t.Helper()
	conditions, _, _ := unstructured.NestedSlice(m.await(reason).Object, "status", "conditions")
	ready := slices.IndexFunc(conditions, func(item any) bool { return item.(map[string]any)["type"] == apimeta.ConditionReady })
	return conditions[ready].(map[string]any)["message"].(string)
}

func (m *memcached) delete() {
	m.t.Helper()
	if err := m.client.Delete(m.t.Context(), "cache", metav1.DeleteOptions{}); err != nil {
		m.t.Fatal(err)
	}
	m.awaitGone("Memcached", func(ctx context.Context) error {
		_, err := m.client.Get(ctx, "cache", metav1.GetOptions{})
		return err
	})
}

func (m *memcached) awaitGone(what string, get func(context.Context) error) {
	m.t.Helper()
	cluster.Eventually(m.t.Context(), m.t, what+" gone", func(ctx context.Context) (bool, error) {
		err := get(ctx)
		return apierrors.IsNotFound(err), err
	})
}

// spend waits until the operator is silent before and after do, and asserts its number of requests,
// without events.
func (m *memcached) spend(what string, want int, do func()) {
	m.t.Helper()
	filter := func(e cluster.AuditEvent) bool {
		return cluster.ByOperator()(e) && e.Namespace == m.namespace && e.Resource != "events" && e.Verb != "watch"
	}
	awaitQuiet := func() {
		if err := shared.AwaitAuditQuiet(m.t.Context(), quiet, filter); err != nil {
			m.t.Fatal(err)
		}
	}
	awaitQuiet()
	begin := time.Now()
	do()
	awaitQuiet()
	requests, err := shared.AuditRequests(begin, filter)
	if err != nil {
		m.t.Fatal(err)
	}
	statuses := 0
	for _, request := range requests {
		if request.Subresource == "status" {
			statuses++
		}
	}
	// On a slow machine, a Deployment is observed after the time for which a status is held.
	// Its health then takes a further write of the status.
	isLate := statuses > 1 && len(requests) == want+1
	if len(requests) != want && !isLate {
		m.t.Errorf("%s took %d requests, want %d:\n%s", what, len(requests), want, apps.Describe(requests))
	}
}

func (m *memcached) service() *corev1.Service {
	m.t.Helper()
	service, err := shared.Client.CoreV1().Services(m.namespace).Get(m.t.Context(), objectName, metav1.GetOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	return service
}

// TestMemcachedLife follows a Memcached without pods from its creation to its deletion, and counts
// the requests. The chart has a ServiceAccount, a Service and a Deployment.
func TestMemcachedLife(t *testing.T) {
	t.Parallel()
	m := newMemcached(t)
	const objects = 3

	m.spend("the install", objects+4, func() {
		m.create(map[string]any{"replicaCount": int64(0)})
		m.await(apimeta.ReasonHealthy)
	})
	m.spend("the upgrade of one object", 1+4, func() {
		m.change(`{"spec":{"service":{"port":11212}}}`)
		m.await(apimeta.ReasonHealthy)
	})
	if port := m.service().Spec.Ports[0].Port; port != 11212 {
		t.Errorf("the port of the Service is %d", port)
	}
	m.spend("fields of others", 0, func() {
		patch(t, shared.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace(m.namespace), objectName,
			`{"metadata":{"annotations":{"other":"field"}}}`)
	})
	m.spend("the correction of drift", 1+2, func() {
		patch(t, shared.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace(m.namespace), objectName,
			`{"metadata":{"labels":{"app.kubernetes.io/name":"theirs"}}}`)
		cluster.Eventually(t.Context(), t, "drift corrected", func(context.Context) (bool, error) {
			return m.service().Labels["app.kubernetes.io/name"] == "memcached", nil
		})
		m.await(apimeta.ReasonHealthy)
	})
	// One request asks whether the objects still have their owner: a deletion with the propagation policy
	// Orphan may have removed it.
	m.spend("the uninstall", objects+3, m.delete)
	m.awaitGone("Service", func(ctx context.Context) error {
		_, err := shared.Client.CoreV1().Services(m.namespace).Get(ctx, objectName, metav1.GetOptions{})
		return err
	})
	records, err := shared.Client.CoreV1().Secrets(m.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil || len(records.Items) > 0 {
		t.Errorf("%d release records are left, %v", len(records.Items), err)
	}
}

// TestMemcachedAutoscaling replaces the replicas by a HorizontalPodAutoscaler, and removes it
// again. The operator leaves the replicas to the HorizontalPodAutoscaler meanwhile.
func TestMemcachedAutoscaling(t *testing.T) {
	t.Parallel()
	m := newMemcached(t)
	m.create(map[string]any{"replicaCount": int64(1), "autoscaling": map[string]any{"enabled": true}, "ingress": map[string]any{"enabled": true}})
	m.await(apimeta.ReasonHealthy)
	scalers := shared.Client.AutoscalingV2().HorizontalPodAutoscalers(m.namespace)
	if _, err := scalers.Get(t.Context(), objectName, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}

	m.change(`{"spec":{"autoscaling":{"enabled":false},"ingress":{"enabled":false}}}`)

	m.await(apimeta.ReasonHealthy)
	m.awaitGone("HorizontalPodAutoscaler", func(ctx context.Context) error {
		_, err := scalers.Get(ctx, objectName, metav1.GetOptions{})
		return err
	})
}

// TestMemcachedOwnershipConflict: objects of other owners are neither changed nor deleted, for any
// kind of the chart.
func TestMemcachedOwnershipConflict(t *testing.T) {
	t.Parallel()
	m := newMemcached(t)
	theirs := map[string]dynamic.ResourceInterface{}
	for _, object := range []struct {
		resource schema.GroupVersionResource
		kind     string
		spec     string
	}{
		{corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "ServiceAccount", ``},
		{serviceResource, "Service", `{"ports":[{"port":80}]}`},
		{deploymentResource, "Deployment", `{"replicas":0,"selector":{"matchLabels":{"app":"theirs"}},"template":{"metadata":{"labels":{"app":"theirs"}},` +
			`"spec":{"securityContext":{"runAsNonRoot":true},"containers":[{"name":"theirs","image":"registry.invalid/theirs:1"}]}}}`},
		{
			autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"), "HorizontalPodAutoscaler",
			`{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"theirs"}}`,
		},
		{ingressResource, "Ingress", `{"defaultBackend":{"service":{"name":"theirs","port":{"number":80}}}}`},
	} {
		live := &unstructured.Unstructured{Object: map[string]any{}}
		if object.spec != "" {
			if err := json.Unmarshal([]byte(`{"spec":`+object.spec+`}`), &live.Object); err != nil {
				t.Fatal(err)
			}
		}
		live.SetAPIVersion(object.resource.GroupVersion().String())
		live.SetKind(object.kind)
		live.SetName(objectName)
		live.SetLabels(map[string]string{"owner": "them"})
		theirs[object.kind] = shared.Dynamic.Resource(object.resource).Namespace(m.namespace)
		if _, err := theirs[object.kind].Create(t.Context(), live, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	m.create(map[string]any{"replicaCount": int64(0), "autoscaling": map[string]any{"enabled": true}, "ingress": map[string]any{"enabled": true}})

	for range len(theirs) {
		var kind string
		cluster.Eventually(t.Context(), t, "the Memcached names an object of others", func(context.Context) (bool, error) {
			message := m.message(apimeta.ReasonOwnershipConflict)
			for named := range theirs {
				if strings.Contains(message, named+" "+m.namespace+"/"+objectName) {
					kind = named
				}
			}
			return kind != "", fmt.Errorf("message is %s", message)
		})
		live, err := theirs[kind].Get(t.Context(), objectName, metav1.GetOptions{})
		if err != nil || live.GetLabels()["owner"] != "them" {
			t.Errorf("the %s of others: %v, %v", kind, live.GetLabels(), err)
		}
		if len(theirs) == 1 {
			m.delete()
			if _, err := theirs[kind].Get(t.Context(), objectName, metav1.GetOptions{}); err != nil {
				t.Errorf("the %s of others after the deletion: %v", kind, err)
			}
			return
		}
		if err := theirs[kind].Delete(t.Context(), objectName, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		delete(theirs, kind)
		// The request saves the time until the operator reads the deleted object again.
		m.change(`{"metadata":{"annotations":{"demo.example.com/requested-at":"` + kind + `"}}}`)
	}
}
