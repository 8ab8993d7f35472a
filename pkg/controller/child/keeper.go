// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
)

// ErrExists is wrapped by the error of [Keeper.Create] when the name is taken.
// Whose the object is, the cache says as soon as it has it.
var ErrExists = errors.New("an object of this name exists already")

// Client is the part of a generated typed client that this package uses.
type Client[T any] interface {
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Keeper writes owned objects of one kind. It is safe for concurrent use. Objects
// that it is given and returns are shared: treat them as read-only.
type Keeper[T controller.Object] struct {
	manager string

	mu sync.Mutex
	// written has what was written and is not in the cache yet, by the key of the
	// owner and the name of the object.
	written map[cache.ObjectName]map[string]write[T]
}

// write is the last write of an object.
type write[T controller.Object] struct {
	// object is as the API server returned it; as it was before, where it was
	// deleted.
	object  T
	deleted bool
}

// NewKeeper returns a keeper that writes as the field manager of that name.
func NewKeeper[T controller.Object](manager string) *Keeper[T] {
	return &Keeper[T]{manager: manager, written: map[cache.ObjectName]map[string]write[T]{}}
}

// Create creates an object, which names its controller. The error wraps
// [ErrExists] when another object has the name.
func (k *Keeper[T]) Create(ctx context.Context, client Client[T], desired T) error {
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: k.manager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create %s: %w", desired.GetName(), ErrExists)
	case err != nil:
		return fmt.Errorf("create %s: %w", desired.GetName(), err)
	}
	k.remember(created, false)
	klog.FromContext(ctx).Info("Created a child", "target", desired.GetName())
	return nil
}

// Update writes desired, a changed copy of what was looked at. A conflict, because
// that was not the newest version, is returned, wrapped.
func (k *Keeper[T]) Update(ctx context.Context, client Client[T], desired T) error {
	updated, err := client.Update(ctx, desired, metav1.UpdateOptions{FieldManager: k.manager})
	if err != nil {
		return fmt.Errorf("update %s: %w", desired.GetName(), err)
	}
	k.remember(updated, false)
	klog.FromContext(ctx).Info("Updated a child", "target", desired.GetName())
	return nil
}

// Delete asks for the deletion of exactly this object: one that is gone, or that
// another has taken the place of, is left alone.
func (k *Keeper[T]) Delete(ctx context.Context, client Client[T], current T) error {
	uid := current.GetUID()
	err := client.Delete(ctx, current.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", current.GetName(), err)
	}
	k.remember(current, true)
	klog.FromContext(ctx).Info("Deleted a child", "target", current.GetName())
	return nil
}

// Children are the objects that owner controls: those that are cached, each in
// its newest known version, and those that were just created. Seen is the version
// that the cache has come to (LastStoreSyncResourceVersion of its store), read
// before the objects were.
func (k *Keeper[T]) Children(owner metav1.Object, cached []T, seen string) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := cache.NewObjectName(owner.GetNamespace(), owner.GetName())
	pending := k.written[key]
	children := make([]T, 0, len(cached)+len(pending))
	known := make(map[string]bool, len(cached))
	for _, object := range cached {
		known[object.GetName()] = true
		children = append(children, newest(pending, object))
	}
	for name, w := range pending {
		switch {
		case known[name]:
		case w.deleted, !isOwner(owner.GetUID(), w.object), hasPassed(seen, w.object):
			delete(pending, name)
		default:
			children = append(children, w.object)
		}
	}
	if len(pending) == 0 {
		delete(k.written, key)
	}
	return children
}

// IsLeaving reports whether an object is being deleted, as far as is known.
func (k *Keeper[T]) IsLeaving(object T) bool {
	if object.GetDeletionTimestamp() != nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.written[ownerOf(object)][object.GetName()]
	return ok && w.deleted && w.object.GetUID() == object.GetUID()
}

// Forget drops what is remembered of an owner that is gone.
func (k *Keeper[T]) Forget(owner cache.ObjectName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.written, owner)
}

func (k *Keeper[T]) remember(object T, deleted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	owner := ownerOf(object)
	if k.written[owner] == nil {
		k.written[owner] = map[string]write[T]{}
	}
	k.written[owner][object.GetName()] = write[T]{object: object, deleted: deleted}
}

// newest is the newer of a cached object and what was written of it, which is
// dropped as soon as the cache has it.
func newest[T controller.Object](pending map[string]write[T], cached T) T {
	w, ok := pending[cached.GetName()]
	switch {
	case !ok:
		return cached
	case w.deleted:
		if w.object.GetUID() != cached.GetUID() || cached.GetDeletionTimestamp() != nil {
			delete(pending, cached.GetName())
		}
		return cached
	case hasPassed(cached.GetResourceVersion(), w.object):
		delete(pending, cached.GetName())
		return cached
	default:
		return w.object
	}
}

// hasPassed reports whether version is that of object or a later one. One that
// cannot be compared counts as late: what the cache has is then believed.
func hasPassed[T controller.Object](version string, object T) bool {
	order, err := resourceversion.CompareResourceVersion(version, object.GetResourceVersion())
	return err != nil || order >= 0
}

func ownerOf[T controller.Object](object T) cache.ObjectName {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return cache.ObjectName{}
	}
	return cache.NewObjectName(object.GetNamespace(), ref.Name)
}

func isOwner[T controller.Object](uid types.UID, object T) bool {
	ref := metav1.GetControllerOfNoCopy(object)
	return ref != nil && ref.UID == uid
}
