// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// labelsManager owns inherited labels of objects that the operator does not apply itself.
const labelsManager = FieldManager + "-labels"

// Inherited returns the labels that an owner passes on to what is made for it. Selectors and pod
// templates must not have these labels: a selector cannot change, and another template rolls pods.
func Inherited(owner metav1.Object) map[string]string {
	inherited := map[string]string{}
	for _, name := range childv1alpha1.InheritedLabels {
		if value, ok := owner.GetLabels()[name]; ok {
			inherited[name] = value
		}
	}
	return inherited
}

// Inherit sets the labels that the owner passes on, on the objects of the owner that select returns
// true for. The templates of pods and volume claims stay as they are, so no pod rolls. An object that
// has the labels costs no request.
func (l *Labeled[T]) Inherit(
	ctx context.Context, owner metav1.Object, kind schema.GroupVersionKind, patcher controller.Patcher[T], selects func(T) bool,
) error {
	labels := Inherited(owner)
	var errs []error
	for _, object := range l.Of(cache.MetaObjectToName(owner)) {
		if object.GetDeletionTimestamp() != nil || contains(object.GetLabels(), labels) || !selects(object) {
			continue
		}
		labeled, err := ApplyFields(ctx, patcher, labelsManager, object.GetUID(), Untyped{
			"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
			"metadata": map[string]any{"name": object.GetName(), "labels": labels},
		})
		switch {
		case ssa.IsReplaced(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
			// The event of the deletion or of the new object starts a pass.
		case err != nil:
			errs = append(errs, fmt.Errorf("label: %w", err))
		default:
			l.Wrote(labeled)
		}
	}
	return errors.Join(errs...)
}
