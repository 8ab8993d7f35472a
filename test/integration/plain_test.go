// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	"github.com/example/demoapp-controller/test/cluster"
)

// object is a custom resource of a plain kind.
type object interface {
	metav1.Object
	runtime.Object
}

// objects is the generated client of a plain kind in one namespace.
type objects[T object] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, patch types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// plain is a namespace whose pods must meet the restricted profile, for one object of a plain kind.
type plain[T object] struct {
	t               *testing.T
	namespace, name string
	client          *versioned.Clientset
	objects         objects[T]
}

// installed has an install function for each folder of artifacts/kinds.
var installed sync.Map

// installKinds installs kinds with their permissions. The operator runs already, and waits for
// them.
func installKinds(t *testing.T, folders ...string) {
	t.Helper()
	for _, folder := range folders {
		install, _ := installed.LoadOrStore(folder, sync.OnceValue(func() error {
			ctx := context.WithoutCancel(t.Context())
			return errors.Join(
				shared.InstallCRDs(ctx, "artifacts/kinds/"+folder+"/crd.yaml"), shared.ApplyFiles(ctx, "", "artifacts/kinds/"+folder+"/rbac.yaml"),
			)
		}))
		if err := install.(func() error)(); err != nil {
			t.Fatal(err)
		}
	}
}

// newPlain returns a new namespace for the object of a name. folders are the folders of the kinds
// below artifacts/kinds.
func newPlain[T object, C objects[T]](
	t *testing.T, name string, clients func(client *versioned.Clientset, namespace string) C, folders ...string,
) *plain[T] {
	t.Helper()
	installKinds(t, folders...)
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := shared.Namespace(t)
	showLogOnFailure(t, namespace)
	restricted := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, restricted, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return &plain[T]{t: t, namespace: namespace, name: name, client: client, objects: clients(client, namespace)}
}

// add creates the object.
func (p *plain[T]) add(object T) T {
	p.t.Helper()
	object.SetName(p.name)
	created, err := p.objects.Create(p.t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return created
}

// update changes the object.
func (p *plain[T]) update(change func(T)) {
	p.t.Helper()
	err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
		found, err := p.objects.Get(p.t.Context(), p.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(found)
		_, err = p.objects.Update(p.t.Context(), found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// patch sends a merge patch of the object.
func (p *plain[T]) patch(patch string) {
	p.t.Helper()
	if _, err := p.objects.Patch(p.t.Context(), p.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// remove deletes the object.
func (p *plain[T]) remove() {
	p.t.Helper()
	if err := p.objects.Delete(p.t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// await returns the object once a condition of its newest generation has the reason.
func (p *plain[T]) await(conditionType, reason string) T {
	p.t.Helper()
	return p.awaitObject(conditionType+" is "+reason, func(found T) bool {
		condition := conditionOf(found, conditionType)
		return condition != nil && condition.ObservedGeneration == found.GetGeneration() && condition.Reason == reason
	})
}

// awaitReady returns the object once it is healthy at its newest generation.
func (p *plain[T]) awaitReady() T {
	p.t.Helper()
	return p.await(apimeta.ConditionReady, apimeta.ReasonHealthy)
}

// awaitObject returns the object once it meets a condition.
func (p *plain[T]) awaitObject(what string, met func(T) bool) T {
	p.t.Helper()
	var found T
	cluster.Eventually(p.t.Context(), p.t, what, func(ctx context.Context) (bool, error) {
		var err error
		if found, err = p.objects.Get(ctx, p.name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		if !met(found) {
			return false, fmt.Errorf("the object is %+v", found)
		}
		return true, nil
	})
	return found
}

// conditionOf returns a condition of an object; nil for none.
func conditionOf(object any, conditionType string) *metav1.Condition {
	var whole struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(content, &whole) != nil {
		return nil
	}
	return meta.FindStatusCondition(whole.Status.Conditions, conditionType)
}

// settle waits until the operator is done in the namespace, and returns its requests since then, by
// verb and resource.
func (p *plain[T]) settle(since time.Time) map[string]int {
	p.t.Helper()
	return requestsOf(p.t, p.namespace, since, func(cluster.AuditEvent) bool { return true })
}

func (p *plain[T]) assertRequests(since time.Time, want map[string]int) {
	p.t.Helper()
	assertRequests(p.t, func() map[string]int { return p.settle(since) }, want)
}

func (p *plain[T]) configMap(name string) *corev1.ConfigMap {
	p.t.Helper()
	found, err := shared.Client.CoreV1().ConfigMaps(p.namespace).Get(p.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return found
}
