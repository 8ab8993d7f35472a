// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
)

var manager = metav1.ApplyOptions{FieldManager: "test", Force: true}

func deployment(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	for _, c := range change {
		c(d)
	}
	return d
}

func finalized(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/hold"} }

// stamps are the fields that Stamp sets.
type stamps struct {
	UID             types.UID
	ResourceVersion string
	Generation      int64
	Deleting        bool
}

func stampsOf(d *appsv1.Deployment) stamps {
	return stamps{d.UID, d.ResourceVersion, d.Generation, d.DeletionTimestamp != nil}
}

func TestStamp(t *testing.T) {
	live := func(t *testing.T, d typedappsv1.DeploymentInterface) *appsv1.Deployment {
		t.Helper()
		obj, err := d.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	type client = typedappsv1.DeploymentInterface
	tests := []struct {
		name  string
		start *appsv1.Deployment
		do    func(t *testing.T, d client) (*appsv1.Deployment, error)
		want  stamps
		check func(error) bool
		gone  bool
	}{
		{
			name: "created", start: deployment(),
			do:   func(t *testing.T, d client) (*appsv1.Deployment, error) { return live(t, d), nil },
			want: stamps{"uid-1", "1", 1, false},
		},
		{
			name: "created with a resourceVersion", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				obj := deployment(func(d *appsv1.Deployment) { d.Name, d.ResourceVersion = "b", "7" })
				return d.Create(t.Context(), obj, metav1.CreateOptions{})
			},
			check: apierrors.IsBadRequest,
		},
		{
			name: "spec updated", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				obj := live(t, d)
				obj.Spec.Paused = true
				obj.Status.Replicas = 7
				got, err := d.Update(t.Context(), obj, metav1.UpdateOptions{})
				if err == nil && (got.Status.Replicas != 0 || !got.Spec.Paused) {
					t.Errorf("update wrote %v, %v", got.Spec, got.Status)
				}
				return got, err
			},
			want: stamps{"uid-1", "2", 2, false},
		},
		{
			name: "status updated", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				obj := live(t, d)
				obj.Spec.Paused = true
				obj.Labels = map[string]string{"x": "y"}
				obj.Status.Replicas = 7
				got, err := d.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{})
				if err == nil && (got.Status.Replicas != 7 || got.Spec.Paused || got.Labels != nil) {
					t.Errorf("status update wrote %v, %v, %v", got.Labels, got.Spec, got.Status)
				}
				return got, err
			},
			want: stamps{"uid-1", "2", 1, false},
		},
		{
			name: "labels patched", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				patch := []byte(`{"metadata":{"uid":"uid-1","resourceVersion":"1","labels":{"x":"y"}}}`)
				return d.Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{})
			},
			want: stamps{"uid-1", "2", 1, false},
		},
		{
			name: "updated without a change", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return d.Update(t.Context(), live(t, d), metav1.UpdateOptions{})
			},
			want: stamps{"uid-1", "1", 1, false},
		},
		{
			name: "updated without a resourceVersion", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return d.Update(t.Context(), deployment(func(d *appsv1.Deployment) { d.Spec.Paused = true }), metav1.UpdateOptions{})
			},
			want: stamps{"uid-1", "2", 2, false},
		},
		{
			name: "updated with an old resourceVersion", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				obj := live(t, d)
				patch := []byte(`{"spec":{"paused":true}}`)
				if _, err := d.Patch(t.Context(), "a", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
					return nil, err
				}
				return d.Update(t.Context(), obj, metav1.UpdateOptions{})
			},
			check: apierrors.IsConflict,
		},
		{
			name: "patched with another UID", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return d.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"uid":"other"}}`), metav1.PatchOptions{})
			},
			check: apierrors.IsConflict,
		},
		{
			name: "created by apply", start: deployment(func(d *appsv1.Deployment) { d.Name = "b" }),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return d.Apply(t.Context(), appsv1ac.Deployment("a", "ns").WithSpec(appsv1ac.DeploymentSpec().WithPaused(true)), manager)
			},
			want: stamps{"uid-2", "2", 1, false},
		},
		{
			name: "spec applied", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return d.Apply(t.Context(), appsv1ac.Deployment("a", "ns").WithSpec(appsv1ac.DeploymentSpec().WithPaused(true)), manager)
			},
			want: stamps{"uid-1", "2", 2, false},
		},
		{
			name: "status applied twice", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				config := appsv1ac.Deployment("a", "ns").WithUID("uid-1").WithStatus(appsv1ac.DeploymentStatus().WithReplicas(7))
				if _, err := d.ApplyStatus(t.Context(), config, manager); err != nil {
					return nil, err
				}
				got, err := d.ApplyStatus(t.Context(), config, manager)
				if err == nil && got.Status.Replicas != 7 {
					t.Errorf("apply wrote %v", got.Status)
				}
				return got, err
			},
			want: stamps{"uid-1", "2", 1, false},
		},
		{
			name: "status applied with another UID", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return d.ApplyStatus(t.Context(), appsv1ac.Deployment("a", "ns").WithUID("other"), manager)
			},
			want: stamps{"uid-1", "1", 1, false},
		},
		{
			name: "status of a missing object applied", start: deployment(func(d *appsv1.Deployment) { d.Name = "b" }),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return d.ApplyStatus(t.Context(), appsv1ac.Deployment("a", "ns"), manager)
			},
			check: apierrors.IsNotFound,
		},
		{
			name: "deleted", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return nil, d.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("uid-1")})
			},
			gone: true,
		},
		{
			name: "deleted with another UID", start: deployment(),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return nil, d.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")})
			},
			check: apierrors.IsConflict,
		},
		{
			name: "deleted with a finalizer, twice", start: deployment(finalized),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				err := errors.Join(d.Delete(t.Context(), "a", metav1.DeleteOptions{}), d.Delete(t.Context(), "a", metav1.DeleteOptions{}))
				return live(t, d), err
			},
			want: stamps{"uid-1", "2", 2, true},
		},
		{
			name: "last finalizer removed", start: deployment(finalized),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				if err := d.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
					return nil, err
				}
				obj := live(t, d)
				obj.Finalizers = nil
				return d.Update(t.Context(), obj, metav1.UpdateOptions{})
			},
			want: stamps{"uid-1", "3", 2, true}, gone: true,
		},
		{
			name: "finalizer added while deleting", start: deployment(finalized),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				if err := d.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
					return nil, err
				}
				obj := live(t, d)
				obj.Finalizers = append(obj.Finalizers, "example.com/late")
				return d.Update(t.Context(), obj, metav1.UpdateOptions{})
			},
			check: apierrors.IsForbidden,
		},
		{
			name: "missing object updated", start: deployment(func(d *appsv1.Deployment) { d.Name = "b" }),
			do: func(t *testing.T, d client) (*appsv1.Deployment, error) {
				return d.Update(t.Context(), deployment(), metav1.UpdateOptions{})
			},
			check: apierrors.IsNotFound, gone: true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			clientset := fake.NewClientset()
			Stamp(clientset)
			d := clientset.AppsV1().Deployments("ns")
			if _, err := d.Create(t.Context(), test.start, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			got, err := test.do(t, d)
			if test.check != nil {
				if !test.check(err) {
					t.Errorf("error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != nil && stampsOf(got) != test.want {
				t.Errorf("stamps are %+v, want %+v", stampsOf(got), test.want)
			}
			_, err = d.Get(t.Context(), "a", metav1.GetOptions{})
			if test.gone != apierrors.IsNotFound(err) {
				t.Errorf("gone: %v, want %t", err, test.gone)
			}
		})
	}
}

func TestOnlyKindsWithAGenerationGetOne(t *testing.T) {
	client := fake.NewClientset()
	Stamp(client)
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a"}

	configMap, err1 := client.CoreV1().ConfigMaps("ns").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
	service, err2 := client.CoreV1().Services("ns").Create(t.Context(), &corev1.Service{ObjectMeta: meta}, metav1.CreateOptions{})
	pod, err3 := client.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{ObjectMeta: meta}, metav1.CreateOptions{})
	deployment, err4 := client.AppsV1().Deployments("ns").Create(t.Context(), &appsv1.Deployment{ObjectMeta: meta}, metav1.CreateOptions{})

	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	got := []int64{configMap.Generation, service.Generation, pod.Generation, deployment.Generation}
	if want := []int64{0, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("generations of ConfigMap, Service, Pod and Deployment are %v, want %v", got, want)
	}
}

func TestCreateOnlyApply(t *testing.T) {
	client := fake.NewClientset()
	Stamp(client)
	apply := func(uid, version string) error {
		config := corev1ac.ConfigMap("a", "ns")
		if uid != "" {
			config.WithUID(types.UID(uid))
		}
		if version != "" {
			config.WithResourceVersion(version)
		}
		_, err := client.CoreV1().ConfigMaps("ns").Apply(t.Context(), config, metav1.ApplyOptions{FieldManager: "ours", Force: true})
		return err
	}
	if err := apply("absent", ""); !apierrors.IsConflict(err) {
		t.Errorf("an apply to an absent object with a UID: %v", err)
	}
	if err := apply("", "1"); err != nil {
		t.Errorf("an apply that creates: %v", err)
	}
	if err := apply("", "1"); !apierrors.IsConflict(err) {
		t.Errorf("an apply that may only create, when the object exists: %v", err)
	}
}

func TestWatchEventsHaveStamps(t *testing.T) {
	clientset := fake.NewClientset()
	Stamp(clientset)
	d := clientset.AppsV1().Deployments("ns")
	w, err := d.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := d.Create(t.Context(), deployment(finalized), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"finalizers":[]}}`)
	if _, err := d.Patch(t.Context(), obj.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		event    watch.EventType
		deleting bool
	}{{watch.Added, false}, {watch.Modified, true}, {watch.Deleted, true}} {
		event := <-w.ResultChan()
		got, ok := event.Object.(*appsv1.Deployment)
		if !ok || event.Type != want.event || got.UID != "uid-1" || (got.DeletionTimestamp != nil) != want.deleting {
			t.Errorf("event %s of %v, want %+v", event.Type, event.Object, want)
		}
	}
}

func TestStampDynamicClient(t *testing.T) {
	apps := schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{apps: "DemoAppList"})
	Stamp(client)
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1alpha1", "kind": "DemoApp",
		"metadata": map[string]any{"namespace": "ns", "name": "a"}, "spec": map[string]any{"image": "one"},
	}}
	got, err := client.Resource(apps).Namespace("ns").Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(got.Object, "two", "spec", "image"); err != nil {
		t.Fatal(err)
	}
	if got, err = client.Resource(apps).Namespace("ns").Update(t.Context(), got, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got.GetUID() != "uid-1" || got.GetResourceVersion() != "2" || got.GetGeneration() != 2 {
		t.Errorf("stamps are %v", got.Object["metadata"])
	}
}

// failures is a testing.TB that counts failures.
type failures struct {
	testing.TB
	count   int
	cleanup func()
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.count++ }
func (f *failures) Cleanup(run func())    { f.cleanup = run }

func TestGuardMutations(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.ConfigMap)
		want   int
	}{
		{"read", func(c *corev1.ConfigMap) { _ = c.Data["k"] }, 0},
		{"copied", func(c *corev1.ConfigMap) { c.DeepCopy().Data["k"] = "x" }, 0},
		{"changed", func(c *corev1.ConfigMap) { c.Data["k"] = "x" }, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cached := &corev1.ConfigMap{Data: map[string]string{"k": "v"}}
			f := &failures{TB: t}
			GuardMutations(f, cached, &corev1.ConfigMap{})
			test.change(cached)
			f.cleanup()
			if f.count != test.want {
				t.Errorf("%d failures, want %d", f.count, test.want)
			}
		})
	}
}
