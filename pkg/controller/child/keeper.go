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

// ErrExists is wrapped by the error of [Keeper.Create] if the name is taken. The cache later shows
// which owner the object has.
var ErrExists = errors.New("an object of this name exists already")

// Client is the part of a generated typed client that this package uses.
type Client[T any] interface {
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Keeper writes owned objects of one kind. It is safe for concurrent use. Arguments and results are
// shared: treat them as read-only.
type Keeper[T controller.Object] struct {
	manager string

	mu sync.Mutex
	// written has the writes that the cache does not show yet, by the key of the owner and the name
	// of the object.
	written map[cache.ObjectName]map[string]write[T]
}

// write is the last write of an object.
type write[T controller.Object] struct {
	// object is the API server's answer to the write. After a delete, it is the last version before
	// the delete.
	object  T
	deleted bool
}

// NewKeeper returns a keeper that writes with the given field manager.
func NewKeeper[T controller.Object](manager string) *Keeper[T] {
	return &Keeper[T]{manager: manager, written: map[cache.ObjectName]map[string]write[T]{}}
}

// Create creates an object, which must have a controller reference. The error wraps [ErrExists] if
// another object has the name.
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

// Update writes desired, a changed copy of an observed object. The error wraps a conflict if the
// observed version was not the newest.
func (k *Keeper[T]) Update(ctx context.Context, client Client[T], desired T) error {
	updated, err := client.Update(ctx, desired, metav1.UpdateOptions{FieldManager: k.manager})
	if err != nil {
		return fmt.Errorf("update %s: %w", desired.GetName(), err)
	}
	k.remember(updated, false)
	klog.FromContext(ctx).Info("Updated a child", "target", desired.GetName())
	return nil
}

// Delete deletes exactly this object. It does nothing if the object is gone or was replaced.
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

// Children returns the objects that owner controls: the newest known version of each cached object,
// and objects that were just created. seen is the resourceVersion of the cache
// (LastStoreSyncResourceVersion of its store). Read seen before the cached objects.
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

// IsLeaving reports whether an object is being deleted, according to the cache and the writes of
// the keeper.
func (k *Keeper[T]) IsLeaving(object T) bool {
	if object.GetDeletionTimestamp() != nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.written[ownerOf(object)][object.GetName()]
	return ok && w.deleted && w.object.GetUID() == object.GetUID()
}

// Forget drops the writes of a deleted owner.
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

// newest returns the newer of a cached object and its last write. It drops the write if the cache
// has caught up.
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

// hasPassed reports whether version is the version of object or a later one. If the versions cannot
// be compared, hasPassed returns true, so that the cache is trusted.
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
