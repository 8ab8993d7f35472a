// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package finalizer

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	mine   = "demo.example.com/mine"
	theirs = "example.com/theirs"
	former = "example.com/former"
)

type write func(context.Context, controller.Patcher[*corev1.ConfigMap], *corev1.ConfigMap, string) (*corev1.ConfigMap, error)

func ensure(ctx context.Context, p controller.Patcher[*corev1.ConfigMap], obj *corev1.ConfigMap, name string) (*corev1.ConfigMap, error) {
	return Ensure(ctx, p, obj, name, former)
}

func removeIt(ctx context.Context, p controller.Patcher[*corev1.ConfigMap], obj *corev1.ConfigMap, name string) (*corev1.ConfigMap, error) {
	return Remove(ctx, p, obj, name, former)
}

func TestFinalizer(t *testing.T) {
	tests := []struct {
		name string
		// live are the finalizers of the object before the write.
		live []string
		// deleted is true if the object is being deleted.
		deleted bool
		// meanwhile is a write of another client after the object was read.
		meanwhile func(t *testing.T, c *fake.Clientset)
		write     write
		want      []string
		patches   int
		check     func(error) bool
	}{
		{name: "ensure", write: ensure, want: []string{mine}, patches: 1},
		{name: "ensure beside another finalizer", live: []string{theirs}, write: ensure, want: []string{theirs, mine}, patches: 1},
		{name: "ensure an existing finalizer", live: []string{mine}, write: ensure, want: []string{mine}},
		{name: "ensure while deleting", live: []string{theirs}, deleted: true, write: ensure, want: []string{theirs}},
		{name: "ensure after a change", meanwhile: label, write: ensure, patches: 1, check: apierrors.IsConflict},
		{name: "ensure after the object was created again", meanwhile: recreate, write: ensure, patches: 1, check: apierrors.IsConflict},
		{name: "ensure after the object was deleted", meanwhile: remove, write: ensure, patches: 1, check: apierrors.IsNotFound},
		{name: "ensure in place of a former one", live: []string{former, theirs}, write: ensure, want: []string{theirs, mine}, patches: 1},
		{name: "ensure beside a former one", live: []string{former, mine}, write: ensure, want: []string{mine}, patches: 1},
		{name: "remove a former one", live: []string{former, theirs}, deleted: true, write: removeIt, want: []string{theirs}, patches: 1},
		{name: "remove", live: []string{mine}, write: removeIt, patches: 1},
		{name: "remove the last finalizer", live: []string{mine}, deleted: true, write: removeIt, patches: 1},
		{name: "remove beside another finalizer", live: []string{theirs, mine}, deleted: true, write: removeIt, want: []string{theirs}, patches: 1},
		{name: "remove a missing finalizer", live: []string{theirs}, write: removeIt, want: []string{theirs}},
		{name: "remove after a change", live: []string{mine}, meanwhile: label, write: removeIt, want: []string{mine}, patches: 1, check: apierrors.IsConflict},
		{name: "remove after the object was deleted", live: []string{mine}, meanwhile: release, write: removeIt, want: []string{mine}, patches: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			clientset := fake.NewClientset()
			controllertest.Stamp(clientset)
			maps := clientset.CoreV1().ConfigMaps("ns")
			obj := create(t, clientset, test.live)
			if test.deleted {
				expect.NoError(t, maps.Delete(t.Context(), "a", metav1.DeleteOptions{}))
				var err error
				if obj, err = maps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if test.meanwhile != nil {
				test.meanwhile(t, clientset)
			}
			controllertest.GuardMutations(t, obj)
			clientset.ClearActions()
			got, err := test.write(t.Context(), maps, obj, mine)
			if test.check == nil && err != nil || test.check != nil && !test.check(err) {
				t.Errorf("error is %v", err)
			}
			if n := len(clientset.Actions()); n != test.patches {
				t.Errorf("%d requests, want %d", n, test.patches)
			}
			if !slices.Equal(got.Finalizers, test.want) {
				t.Errorf("finalizers are %v, want %v", got.Finalizers, test.want)
			}
		})
	}
}

// TestRefusedRemoval: admission may answer NotFound about an object that it misses. The finalizer
// then still exists.
func TestRefusedRemoval(t *testing.T) {
	clientset := fake.NewClientset()
	obj := create(t, clientset, []string{"a/mine"})
	clientset.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "credentials")
	})

	got, err := Remove(t.Context(), clientset.CoreV1().ConfigMaps("ns"), obj, "a/mine")

	if err == nil || !Has(got, "a/mine") {
		t.Errorf("error %v, finalizers %v; want an error and the finalizer", err, got.Finalizers)
	}
}

func create(t *testing.T, c *fake.Clientset, finalizers []string) *corev1.ConfigMap {
	t.Helper()
	obj, err := c.CoreV1().ConfigMaps("ns").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: finalizers}}, metav1.CreateOptions{})
	expect.NoError(t, err)
	return obj
}

func label(t *testing.T, c *fake.Clientset) {
	update(t, c, func(obj *corev1.ConfigMap) { obj.Labels = map[string]string{"x": "y"} })
}

func release(t *testing.T, c *fake.Clientset) {
	update(t, c, func(obj *corev1.ConfigMap) { obj.Finalizers = nil })
	remove(t, c)
}

func remove(t *testing.T, c *fake.Clientset) {
	expect.NoError(t, c.CoreV1().ConfigMaps("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}))
}

func recreate(t *testing.T, c *fake.Clientset) {
	remove(t, c)
	create(t, c, nil)
}

func update(t *testing.T, c *fake.Clientset, change func(*corev1.ConfigMap)) {
	t.Helper()
	maps := c.CoreV1().ConfigMaps("ns")
	obj, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
	expect.NoError(t, err)
	change(obj)
	_, err = maps.Update(t.Context(), obj, metav1.UpdateOptions{})
	expect.NoError(t, err)
}
