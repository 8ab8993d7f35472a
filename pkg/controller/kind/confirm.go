// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
)

// The first list of an informer may come from an API server that lags behind. It can then
// have an older version of an object, or a deleted object whose name another object has now.
// Later events only move a cache forward. So an object has to be confirmed once in the life
// of a loop, before something that exists is changed or deleted for it. The answer to a write
// or to [Loop.live] confirms it, so objects at rest and objects that this process has given their
// finalizer or status cost no request.

// isConfirmed reports whether the API server has confirmed an object.
func (l *Loop[T, S]) isConfirmed(object metav1.Object) bool {
	uid, ok := l.confirmed.Get(cache.MetaObjectToName(object))
	return ok && uid == object.GetUID()
}

// emptyPatch changes nothing. The API server compares the result with the stored object and
// not with a cache, so the answer is the newest version.
var emptyPatch = []byte("{}")

// live returns the newest version of the object with this name. The following passes act on
// it, also while the cache has an older version. The error is NotFound if no object has the
// name. live sends a patch that changes nothing, because an operator may patch its objects,
// but need not be allowed to get them.
func (l *Loop[T, S]) live(ctx context.Context, object metav1.Object) (T, error) {
	var subresources []string
	if l.kind.Finalizer == "" {
		subresources = []string{"status"} // Without a finalizer, only the status may be patched.
	}
	live, err := l.kind.Client(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, emptyPatch,
		metav1.PatchOptions{FieldManager: l.kind.FieldManager}, subresources...)
	if err != nil {
		return live, fmt.Errorf("confirm that the object exists: %w", err)
	}
	l.wrote(live)
	return live, nil
}

// confirmDeletion returns the newest version of an object that is being deleted according to
// the cache; nil if the object is gone. An object that is confirmed already costs no request.
func (l *Loop[T, S]) confirmDeletion(ctx context.Context, object T) (T, error) {
	if l.isConfirmed(object) {
		return object, nil
	}
	live, err := l.live(ctx, object)
	if apierrors.IsNotFound(err) {
		var none T
		l.gone(object)
		return none, nil
	}
	return live, err
}

// Confirm returns a [controller.StaleError] if the API server has a newer version of an object
// than this one, another object of its name, or none. It always asks the API server.
func (l *Loop[T, S]) Confirm(ctx context.Context, object metav1.Object) error {
	live, err := l.live(ctx, object)
	switch {
	case apierrors.IsNotFound(err):
		l.gone(object)
	case err != nil:
		return err
	case live.GetUID() == object.GetUID() && live.GetResourceVersion() == object.GetResourceVersion():
		return nil
	}
	return &controller.StaleError{Object: cache.MetaObjectToName(object)}
}

// ConfirmOnce is [Loop.Confirm], but it asks the API server only if no answer has confirmed the
// object since the loop was made.
func (l *Loop[T, S]) ConfirmOnce(ctx context.Context, object metav1.Object) error {
	if l.isConfirmed(object) {
		return nil
	}
	return l.Confirm(ctx, object)
}
