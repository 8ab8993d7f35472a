// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// labelsManager owns inherited labels of objects that the operator does not apply itself.
const labelsManager = FieldManager + "-labels"

// Inherited returns the labels that an owner passes on to objects created for it. Selectors and pod
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

// Inherit sets the labels that the owner passes on, on those objects of the owner that belong to
// it: anyone can create an object with the label. The templates of pods and volume claims stay as
// they are, so no pod rolls. An object that has the labels costs no request.
//
// If another client removes the labels repeatedly, they are set at growing intervals, as children
// are restored: retryAfter gets the delay of the next call. Labels that the API server refuses are
// logged, and tried again in a later pass. Other errors are transient.
func (l *Labeled[T]) Inherit(
	ctx context.Context, owner metav1.Object, kind schema.GroupVersionKind, patcher controller.Patcher[T], belongs func(T) bool,
	now time.Time, retryAfter func(time.Duration),
) error {
	labels := Inherited(owner)
	var errs []error
	for _, object := range l.Of(cache.MetaObjectToName(owner)) {
		if object.GetDeletionTimestamp() != nil || contains(object.GetLabels(), labels) || !belongs(object) {
			continue
		}
		target := id{kind.Kind, object.GetName()}
		key := childKey{object.GetNamespace(), target}
		if pause := l.inherited.Against(key, 0, now).Wait; pause > 0 {
			retryAfter(pause)
			continue
		}
		labeled, err := ApplyFields(ctx, patcher, labelsManager, object.GetUID(), Untyped{
			"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
			"metadata": map[string]any{"name": object.GetName(), "labels": labels},
		})
		switch {
		case ssa.IsReplaced(err), ssa.IsOutdated(err, target.name), ssa.IsGone(err, target.name):
			// The event of the deletion or of the new object starts a pass.
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			l.inherited.Corrected(controller.DriftCount{}, object.GetNamespace(), key, 0, now)
			klog.FromContext(ctx).Error(&RefusedError{Object: Named(target.kind, target.name), Err: err},
				"The labels of the owner were refused; a later pass tries again", "target", target.String())
		case err != nil:
			errs = append(errs, writeError(target, err))
		default:
			l.inherited.Corrected(controller.DriftCount{}, object.GetNamespace(), key, 0, now)
			l.Wrote(labeled)
		}
	}
	return errors.Join(errs...)
}
