// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	manager = "ours"
	// early and late are versions before and after all writes of a test.
	early = "1"
	late  = "1000"
)

var owner = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "owner-uid"}}

func newMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{Reference(owner, "v1", "Secret")},
	}}
}

func newKeeper(t *testing.T) (*Keeper[*corev1.ConfigMap], corev1client.ConfigMapInterface) {
	t.Helper()
	client := kubefake.NewClientset()
	controllertest.Stamp(client)
	_, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), newMap("first"), metav1.CreateOptions{})
	expect.NoError(t, err)
	return NewKeeper[*corev1.ConfigMap](manager), client.CoreV1().ConfigMaps("ns")
}

func namesOf(objects []*corev1.ConfigMap) (names []string) {
	for _, object := range objects {
		names = append(names, object.Name)
	}
	slices.Sort(names)
	return names
}

func get(t *testing.T, client corev1client.ConfigMapInterface, name string) *corev1.ConfigMap {
	t.Helper()
	object, err := client.Get(t.Context(), name, metav1.GetOptions{})
	expect.NoError(t, err)
	return object
}

func TestKeeperReturnsCreatedObjectBeforeCache(t *testing.T) {
	k, client := newKeeper(t)
	expect.NoError(t, k.Create(t.Context(), client, newMap("a")))
	created := get(t, client, "a")
	expect.Equal(t, "before", []string{"a"}, namesOf(k.Children(owner, nil, early)))
	expect.Equal(t, "with another one", []string{"a", "b"}, namesOf(k.Children(owner, []*corev1.ConfigMap{newMap("b")}, early)))
	expect.Equal(t, "once it is cached", []string{"a"}, namesOf(k.Children(owner, []*corev1.ConfigMap{created}, created.ResourceVersion)))
	expect.Equal(t, "what is remembered after that", 0, len(k.written))
}

func TestKeeperDropsDeletedObject(t *testing.T) {
	k, client := newKeeper(t)
	expect.NoError(t, k.Create(t.Context(), client, newMap("a")))
	expect.Equal(t, "once the cache has passed it", []string(nil), namesOf(k.Children(owner, nil, late)))
	expect.NoError(t, k.Create(t.Context(), client, newMap("b")))
	successor := owner.DeepCopy()
	successor.UID = "another"
	expect.Equal(t, "for a successor of the owner", []string(nil), namesOf(k.Children(successor, nil, early)))
}

func TestKeeperTrustsCacheWithoutVersions(t *testing.T) {
	k, client := newKeeper(t)
	expect.NoError(t, k.Create(t.Context(), client, newMap("a")))
	expect.Equal(t, "children", []string(nil), namesOf(k.Children(owner, nil, "")))
}

func TestCreateWithTakenName(t *testing.T) {
	k, client := newKeeper(t)
	theirs, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}, metav1.CreateOptions{})
	expect.NoError(t, err)
	if err := k.Create(t.Context(), client, newMap("a")); !errors.Is(err, ErrExists) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "theirs", theirs, get(t, client, "a"))
	expect.Equal(t, "children", []string(nil), namesOf(k.Children(owner, nil, early)))
}

func TestUpdate(t *testing.T) {
	k, client := newKeeper(t)
	expect.NoError(t, k.Create(t.Context(), client, newMap("a")))
	before := get(t, client, "a")
	changed := before.DeepCopy()
	changed.Data = map[string]string{"k": "v"}
	expect.NoError(t, k.Update(t.Context(), client, changed))
	children := k.Children(owner, []*corev1.ConfigMap{before}, before.ResourceVersion)
	expect.Equal(t, "data while the cache is behind", map[string]string{"k": "v"}, children[0].Data)
	if err := k.Update(t.Context(), client, changed); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
}

func TestDelete(t *testing.T) {
	k, client := newKeeper(t)
	expect.NoError(t, k.Create(t.Context(), client, newMap("a")))
	object := get(t, client, "a")
	if k.IsLeaving(object) {
		t.Error("leaves before it is deleted")
	}
	expect.NoError(t, k.Delete(t.Context(), client, object))
	expect.Equal(t, "children while the cache is behind", []string{"a"}, namesOf(k.Children(owner, []*corev1.ConfigMap{object}, early)))
	if !k.IsLeaving(object) {
		t.Error("does not leave after it was deleted")
	}
	expect.NoError(t, k.Delete(t.Context(), client, object))

	expect.NoError(t, k.Create(t.Context(), client, newMap("a")))
	again := get(t, client, "a")
	expect.NoError(t, k.Delete(t.Context(), client, object))
	expect.Equal(t, "its successor", again.UID, get(t, client, "a").UID)
	k.Children(owner, []*corev1.ConfigMap{again}, early)
	if k.IsLeaving(again) {
		t.Error("the successor leaves")
	}
	k.Forget(ownerOf(object))
	expect.Equal(t, "what is remembered", 0, len(k.written))
}

func TestMetadata(t *testing.T) {
	_, client := newKeeper(t)
	object := newMap("a")
	object.Labels = map[string]string{"old": "1", "kept": "1"}
	object.Annotations = map[string]string{"old": "1"}
	_, err := client.Create(t.Context(), object, metav1.CreateOptions{FieldManager: manager})
	expect.NoError(t, err)
	object = get(t, client, "a")
	object.Labels["theirs"] = "1"
	_, err = client.Update(t.Context(), object, metav1.UpdateOptions{FieldManager: "theirs"})
	expect.NoError(t, err)
	object = get(t, client, "a")
	desired := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kept": "2", "new": "1"}}}
	if HasMetadata(object, desired) {
		t.Error("has it before")
	}
	expect.NoError(t, Metadata(object, desired, manager))
	expect.Equal(t, "labels", map[string]string{"kept": "2", "new": "1", "theirs": "1"}, object.Labels)
	expect.Equal(t, "annotations", map[string]string{}, object.Annotations)
	if !HasMetadata(object, desired) {
		t.Error("does not have it after")
	}
}

func TestInBatches(t *testing.T) {
	errRefused := errors.New("refused")
	tests := []struct {
		name          string
		count         int
		fails         func(i int) bool
		calls, atOnce int
	}{
		{"none", 0, nil, 0, 0},
		{"all", 20, nil, 20, 4},
		{"one that fails", 20, func(i int) bool { return i == 5 }, 20, 4},
		{"all fail", 20, func(int) bool { return true }, 3, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			calls, now, most := 0, 0, 0
			err := InBatches(t.Context(), test.count, 4, func(_ context.Context, i int) error {
				mu.Lock()
				calls, now = calls+1, now+1
				most = max(most, now)
				mu.Unlock()
				defer func() {
					mu.Lock()
					now--
					mu.Unlock()
				}()
				if test.fails != nil && test.fails(i) {
					return errRefused
				}
				return nil
			})
			expect.Equal(t, "calls", test.calls, calls)
			if most > test.atOnce {
				t.Errorf("%d calls at once", most)
			}
			if errors.Is(err, errRefused) != (test.fails != nil) {
				t.Errorf("error is %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := InBatches(ctx, 1, 1, func(context.Context, int) error { t.Error("called after the end"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}
