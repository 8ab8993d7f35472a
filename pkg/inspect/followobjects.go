// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// Followed selects the objects of a watch.
type Followed struct {
	Kind schema.GroupVersionKind
	// Namespace is empty for all namespaces, Name for all objects, and Selector for all labels.
	Namespace, Name, Selector string
}

// FollowObjects calls changed with each selected object, and again after each change of it, until
// ctx ends or the user may not list or watch the objects. deleted says that the object is gone.
// Calls do not overlap.
func (c *Cluster) FollowObjects(ctx context.Context, what Followed, changed func(object *unstructured.Unstructured, deleted bool)) error {
	mapping, err := c.mapping(what.Kind)
	if err != nil {
		return err
	}
	resource := c.resource(mapping.Resource, namespaceFor(mapping, what.Namespace))
	narrow := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector = what.Selector
		if what.Name != "" {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", what.Name).String()
		}
		return options
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, narrow(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, narrow(options))
		},
	}
	informer := cache.NewSharedIndexInformer(lister, &unstructured.Unstructured{}, 0, cache.Indexers{})
	err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		// Other errors pass: the informer lists again.
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			stop(fmt.Errorf("watch %s: %w", mapping.Resource.GroupResource(), err))
		}
	})
	if err != nil {
		return err
	}
	call := func(object any, deleted bool) {
		if final, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = final.Obj
		}
		if object, ok := object.(*unstructured.Unstructured); ok {
			changed(object, deleted)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { call(object, false) },
		UpdateFunc: func(_, object any) { call(object, false) },
		DeleteFunc: func(object any) { call(object, true) },
	})
	if err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return context.Cause(ctx)
}

// Progress returns whether an object is ready, waits, or needs a person, by its conditions alone.
// handled is the [Outcome.Handled] of a request that the operator has to handle first; empty for
// none. text says why in one line.
func Progress(object *unstructured.Unstructured, handled string) (verdict Verdict, text string) {
	status, summary := StatusOf(object), Summarize(object)
	text = summary.Reason
	if summary.Message != "" {
		text += ": " + summary.Message
	}
	// Other kinds have no field that repeats the request.
	hasRelease := status.Condition(releasev1alpha1.ConditionInitialized) != nil || status.Condition(releasev1alpha1.ConditionDeployed) != nil
	if handled != "" && hasRelease && status.Release.LastHandledRequestedAt != handled {
		return Waits, "the operator has not handled the request yet"
	}
	if suspended := status.Condition(apimeta.ConditionSuspended); suspended != nil && hasEnded(object, *suspended) {
		return Waits, "the operator has not seen the end of the suspension yet"
	}
	stalled := status.Condition(apimeta.ConditionStalled)
	switch {
	case summary.Deleting:
		return Waits, "the object is being deleted"
	case summary.Ready == metav1.ConditionTrue:
		return Ready, text
	case stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.ObservedGeneration >= object.GetGeneration():
		return NeedsPerson, text
	case summary.Suspended && summary.Reason != ReasonUnseen:
		return NeedsPerson, text // A change waits until someone resumes the object.
	default:
		return Waits, text
	}
}

// hasEnded reports whether the annotation or the field is gone that the condition Suspended names.
func hasEnded(object *unstructured.Unstructured, suspended metav1.Condition) bool {
	switch suspended.Reason {
	case releasev1alpha1.ReasonSuspendedBySpec:
		field, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
		return !field
	case apimeta.ReasonSuspendedByAnnotation:
		// A program may have another annotation that suspends.
		return strings.Contains(suspended.Message, " "+apimeta.AnnotationPaused+" ") && !IsSuspendedByAnnotation(object)
	default:
		return false
	}
}
