// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// checkHooks fails when a hook is out of the release's scope, or cannot be created. It
// checks tests for their scope only, because users run them. A kind that is not served may
// be served when the hook runs.
func (o *operation) checkHooks(next *releasev1.Release) error {
	var invalid, excluded refusals
	for _, hook := range next.Hooks {
		list, err := o.buildChecked(hook.Manifest, manifest.CheckMetadata)
		for _, info := range list {
			o.hookNames.Insert(identityOf(info))
		}
		var (
			render  *RenderError
			outside *OutOfScopeError
		)
		switch {
		case errors.As(err, &render) && isTest(hook):
		case errors.As(err, &render):
			invalid.add("hook "+hook.Path, render.Err)
		case errors.As(err, &outside):
			excluded.add("hook "+hook.Path, err)
		case err != nil && !meta.IsNoMatchError(err):
			return fmt.Errorf("hook %s: %w", hook.Path, err)
		case !isTest(hook):
			if err := o.review(list); err != nil {
				invalid.add("hook "+hook.Path, err)
			}
		}
	}
	if err := invalid.err(); err != nil {
		return o.invalid(err)
	}
	if err := excluded.err(); err != nil {
		return err
	}
	return o.checkHookNames(next)
}

// lastHooks are the events of hooks that run after the objects of a revision are applied.
var lastHooks = []releasev1.HookEvent{releasev1.HookPostInstall, releasev1.HookPostUpgrade, releasev1.HookPostRollback}

// checkHookNames fails when a hook would replace an object of the revision after the object was
// applied. An earlier hook becomes the object, see createHook and ours.
func (o *operation) checkHookNames(next *releasev1.Release) error {
	hooks := slices.DeleteFunc(slices.Clone(next.Hooks), func(hook *releasev1.Hook) bool { return !runsAt(hook, lastHooks...) })
	if len(hooks) == 0 || o.skipsHooks {
		return nil
	}
	objects, err := o.build(next.Manifest)
	if err != nil && !isExcluded(err) {
		return err
	}
	sources := make(map[Identity]string, len(objects))
	for _, info := range objects {
		sources[identityOf(info)] = info.Source
	}
	var refused refusals
	for _, hook := range hooks {
		list, err := o.build(hook.Manifest)
		if err != nil && !isExcluded(err) {
			return fmt.Errorf("hook %s: %w", hook.Path, err)
		}
		for _, info := range list {
			if source, ok := sources[identityOf(info)]; ok {
				refused.add("hook "+hook.Path, fmt.Errorf("%s would replace the object of this name%s after it was applied: rename one of them",
					reference(info), from(source)))
			}
		}
	}
	if err := refused.err(); err != nil {
		return o.invalid(err)
	}
	return nil
}

// runsAt reports whether a hook runs at one of the events.
func runsAt(hook *releasev1.Hook, events ...releasev1.HookEvent) bool {
	return slices.ContainsFunc(hook.Events, func(event releasev1.HookEvent) bool { return slices.Contains(events, event) })
}

// isTest reports whether a hook runs in tests only.
func isTest(hook *releasev1.Hook) bool {
	return !slices.ContainsFunc(hook.Events, func(event releasev1.HookEvent) bool { return event != releasev1.HookTest })
}

// firstHooks are the hooks that run before any object of a revision is applied.
var firstHooks = map[common.Status]releasev1.HookEvent{
	common.StatusPendingInstall:  releasev1.HookPreInstall,
	common.StatusPendingUpgrade:  releasev1.HookPreUpgrade,
	common.StatusPendingRollback: releasev1.HookPreRollback,
}

// lookFirst fails if an object of the revision exists and has another owner, so that a refused
// revision changes nothing. An install reads the objects only if hooks run before. Otherwise its
// creations detect the conflict without an extra request, and are undone.
func (o *operation) lookFirst(next *releasev1.Release) error {
	event := firstHooks[next.Info.Status]
	hooked := !o.skipsHooks && slices.ContainsFunc(next.Hooks, func(hook *releasev1.Hook) bool { return runsAt(hook, event) })
	if event == releasev1.HookPreInstall && !hooked {
		return nil
	}
	resources, err := o.build(next.Manifest)
	if err != nil {
		return err
	}
	if err := o.claimAll(resources); err != nil {
		return err
	}
	for _, info := range resources {
		if got, _ := o.observed(info); got != nil && got.UID == o.known[identityOf(info)].UID {
			continue
		}
		live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", reference(info), err)
		}
		if !o.ours(info, live) {
			return o.inTheWay(info, live)
		}
	}
	return nil
}

// hasEnded reports whether a Job or a Pod of an earlier run has ended or is being deleted.
func hasEnded(info *resource.Info, live *unstructured.Unstructured) bool {
	ended := hookEnd(info)
	if ended == nil {
		return false
	}
	done, failed := ended(live)
	return done || failed != nil || live.GetDeletionTimestamp() != nil
}

// clearHook deletes the hook of an earlier run, and waits until it is gone.
func (o *operation) clearHook(info *resource.Info) error {
	if err := o.removeHook(info, metav1.DeletePropagationBackground); err != nil {
		return err
	}
	return (&hookWaiter{operation: o}).WaitForDelete(kube.ResourceList{info}, 0)
}

// formerHooks returns the objects of the hooks of the verified revisions. A hook that becomes an object
// of the release may be left from them.
func (o *operation) formerHooks() sets.Set[Identity] {
	if o.hooksOfHistory != nil {
		return o.hooksOfHistory
	}
	o.hooksOfHistory = sets.New[Identity]()
	for _, record := range o.engine.records.History(o.release) {
		rls, err := o.store.verified(record.Revision)
		if err != nil {
			continue
		}
		for _, hook := range rls.Hooks {
			list, err := o.build(hook.Manifest)
			if err != nil {
				continue
			}
			for _, info := range list {
				o.hooksOfHistory.Insert(identityOf(info))
			}
		}
	}
	return o.hooksOfHistory
}
