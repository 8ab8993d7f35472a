// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/kube"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/example/demoapp-controller/pkg/ssa"
)

// removeAll removes objects in the given order, which is Helm's, with one exception: custom resources
// go before all objects that their controller may need, and are waited for. Their controller may be in
// the same chart, and only the controller removes their finalizers. If a custom resource cannot be
// removed, the objects after it stay. removeAll returns the objects that remove has removed.
func (o *operation) removeAll(list kube.ResourceList, remove func(*resource.Info) error) (removed kube.ResourceList, errs []error) {
	list = slices.Clone(list)
	if slices.ContainsFunc(list, isCustom) {
		slices.SortStableFunc(list, func(a, b *resource.Info) int { return cmp.Compare(removalRank(a), removalRank(b)) })
	}
	var custom kube.ResourceList
	for _, info := range list {
		if len(custom) > 0 && !isCustom(info) {
			if len(errs) == 0 {
				errs = append(errs, o.awaitGone(custom)...)
			}
			if len(errs) > 0 {
				return removed, errs
			}
			custom = nil
		}
		if isCustom(info) {
			custom.Append(info)
		}
		if err := remove(info); err != nil {
			errs = append(errs, err)
			continue
		}
		removed.Append(info)
	}
	return removed, errs
}

// removeInBackground is remove with the propagation policy of Helm's own default.
func (o *operation) removeInBackground(info *resource.Info) error {
	return o.remove(info, metav1.DeletePropagationBackground)
}

// isGone reports whether the answer to a request says that an object does not exist, see [ssa.IsGone].
// An API server that does not know the path of the request says nothing about the object: the version
// of its kind may have been dropped since the last discovery.
func (o *operation) isGone(info *resource.Info, err error) bool {
	if !ssa.IsGone(err, info.Name) {
		return false
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		o.engine.mapper.Doubt()
		return false
	}
	return true
}

// removalRank returns the position of an object in a removal with custom resources. Webhook
// configurations go first, because a webhook could refuse the deletion of a custom resource.
func removalRank(info *resource.Info) int {
	switch kind := info.Mapping.GroupVersionKind.Kind; {
	case isCustom(info):
		return 1
	case kind == "ValidatingWebhookConfiguration" || kind == "MutatingWebhookConfiguration":
		return 0
	default:
		return 2
	}
}

// inUninstallOrder returns objects in Helm's uninstall order. Kinds that Helm does not know come last.
func inUninstallOrder(list kube.ResourceList) kube.ResourceList {
	rank := func(info *resource.Info) int {
		if i := slices.Index(releaseutil.UninstallOrder, info.Mapping.GroupVersionKind.Kind); i >= 0 {
			return i
		}
		return len(releaseutil.UninstallOrder)
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *resource.Info) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// isCustom reports whether an object is a custom resource, by the group of its kind. Hooks have an
// order of their own.
func isCustom(info *resource.Info) bool {
	group := info.Mapping.GroupVersionKind.Group
	return !isHook(info) && !scheme.Scheme.IsGroupRegistered(group) && group != crdKind.Group && group != "apiregistration.k8s.io"
}

// awaitGone waits until deleted custom resources are gone. For each of them, the wait ends when half
// of the release's timeout has passed since its deletion, so that the remaining objects can be
// removed in time. A restart does not extend the wait. Objects that still exist then are left.
func (o *operation) awaitGone(custom kube.ResourceList) []error {
	leaving := map[Identity]*unstructured.Unstructured{}
	for _, info := range custom {
		live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
		if err != nil && !o.isGone(info, err) {
			return []error{fmt.Errorf("look whether %s is gone: %w", reference(info), err)}
		}
		if err == nil && live.GetDeletionTimestamp() != nil {
			leaving[identityOf(info)] = live
		}
	}
	for _, info := range custom {
		if live := leaving[identityOf(info)]; live != nil {
			gone, err := o.awaitRemoval(info, live, namesOf(custom, leaving))
			if err != nil {
				return []error{err}
			}
			if gone {
				delete(leaving, identityOf(info))
			}
		}
	}
	for _, info := range custom {
		if live := leaving[identityOf(info)]; live != nil {
			o.leaveHeld(reference(info), live.GetFinalizers())
		} else {
			o.gone(identityOf(info))
		}
	}
	return nil
}

// namesOf returns the names of the objects that are being deleted.
func namesOf(list kube.ResourceList, leaving map[Identity]*unstructured.Unstructured) string {
	var names []string
	for _, info := range list {
		if live := leaving[identityOf(info)]; live != nil {
			names = append(names, Leftover{Object: reference(info), Reason: waitsFor(live.GetFinalizers())}.String())
		}
	}
	return enumerate(names)
}

// awaitRemoval waits until a deleted object is gone or replaced, and reports whether it is. waitsFor
// describes the wait for the caller of the engine.
func (o *operation) awaitRemoval(info *resource.Info, deleted *unstructured.Unstructured, waitsFor string) (gone bool, err error) {
	bound := o.limits.timeout / 2
	left := min(bound, bound-o.engine.clock.Since(deleted.GetDeletionTimestamp().Time)) // Clocks may differ.
	if left <= 0 {
		live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
		if o.isGone(info, err) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("look whether %s is gone: %w", reference(info), err)
		}
		return live.GetUID() != deleted.GetUID(), nil
	}
	waiter := &hookWaiter{operation: o, waitsFor: waitsFor}
	err = waiter.until(info, left, func(now *unstructured.Unstructured) (bool, error) {
		return now.GetUID() != deleted.GetUID(), nil
	}, nil)
	if err != nil && (o.failure != nil || o.ctx.Err() != nil || apierrors.IsForbidden(err)) {
		return false, fmt.Errorf("deletion of %w", err)
	}
	return err == nil, nil
}
