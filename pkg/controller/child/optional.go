// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// listTimeout is the time that the first list of an optional kind may take. Owners with a child of the
// kind wait for it. After it, the child is left out like a child whose kind is not served.
const listTimeout = 10 * time.Second

// unservedRetry is the retry interval of a child whose API is no longer served.
const unservedRetry = 5 * time.Minute

// optional is a kind of children whose API the API server may not serve.
type optional struct {
	kind  ManagedKind
	added bool
	// awaited is the time at which an owner first waited for the list of the kind.
	awaited time.Time
	// skipped has the owners that lack a child of the kind, and the versions of the caches at that
	// time.
	skipped map[cache.ObjectName]string
}

// skip records that an owner lacks a child of the kind. The owner is queued after the next list of
// the kind, which shows that the API server serves the kind.
func (o *optional) skip(owner metav1.Object) {
	o.skipped[cache.MetaObjectToName(owner)] = o.kind.listed()
}

// servedInterval is the interval of the checks whether the caches have listed a kind again. A check
// sends no request.
const servedInterval = time.Second

// Optional declares kinds of children whose API the API server may not serve. Children of
// these kinds are left out, and named in [State.Unserved], until the kind is added with
// [Set.Add]. Call Optional before the first Ensure.
func (s *Set) Optional(gvks ...schema.GroupVersionKind) *Set {
	for _, gvk := range gvks {
		s.optional[gvk] = &optional{skipped: map[cache.ObjectName]string{}}
	}
	return s
}

// Added is a service that queues the owners of an optional kind of children. See [Set.Add].
type Added struct {
	set    *Set
	gvk    schema.GroupVersionKind
	queue  controller.Enqueuer
	synced []controller.NamedSync
}

// Add adds an optional kind when its API is served. After the informers of the kind have synced,
// Run queues the owners that lack a child. loop is the loop of the owners. It does not wait for the
// informers, because a kind that cannot be listed concerns its own children only.
func (s *Set) Add(loop Loop, kind ManagedKind) (*Added, error) {
	o, ok := s.optional[kind.gvk]
	if !ok {
		return nil, fmt.Errorf("children of kind %s: the set has no such optional kind", kind.gvk.Kind)
	}
	synced, err := s.handle(kind)
	if err != nil {
		return nil, err
	}
	added := &Added{set: s, gvk: kind.gvk, queue: loop.Queue(), synced: synced}
	s.mu.Lock()
	defer s.mu.Unlock()
	o.kind, o.added = kind, true
	return added, nil
}

// Synced returns the caches of the kind.
func (a *Added) Synced() []controller.NamedSync { return a.synced }

// Run queues the owners that lack a child of the kind, once the caches have synced. It
// returns when stop or lead ends.
func (a *Added) Run(stop, lead context.Context) error {
	for _, synced := range a.synced {
		if !cache.WaitForCacheSync(stop.Done(), synced.HasSynced) {
			return nil
		}
	}
	ticker := time.NewTicker(servedInterval)
	defer ticker.Stop()
	for {
		for _, owner := range a.takeSkipped() {
			a.queue.Enqueue(owner, controller.HealthChange)
		}
		select {
		case <-ticker.C:
		case <-stop.Done():
			return nil
		case <-lead.Done():
			return context.Cause(lead)
		}
	}
}

// takeSkipped returns the owners that were skipped before the last list of the kind.
func (a *Added) takeSkipped() []cache.ObjectName {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	o := a.set.optional[a.gvk]
	if len(o.skipped) == 0 {
		return nil
	}
	var owners []cache.ObjectName
	now := o.kind.listed()
	for owner, listed := range o.skipped {
		if listed != now {
			owners = append(owners, owner)
			delete(o.skipped, owner)
		}
	}
	return owners
}

// listed returns the resourceVersions of the informers of a kind.
func (k ManagedKind) listed() string {
	var versions []string
	for namespace, informer := range k.informers {
		versions = append(versions, namespace+"="+informer.LastSyncResourceVersion())
	}
	slices.Sort(versions)
	return strings.Join(versions, " ")
}

// IsUnserved reports whether a desired child of a kind is omitted because the API server does not
// serve the kind.
func (s State) IsUnserved(kind string) bool {
	return slices.ContainsFunc(s.Unserved, func(name childv1alpha1.ChildName) bool { return strings.HasPrefix(string(name), kind+"/") })
}

// kindOf returns a kind of children. served is false for an optional kind that is not served or
// cannot be listed. The owner is then queued when the kind has been listed. The error is an
// [controller.UnfilledError] while the first list may still come.
func (s *Set) kindOf(gvk schema.GroupVersionKind, owner metav1.Object, now time.Time) (kind ManagedKind, served bool, err error) {
	if kind, ok := s.kinds[gvk]; ok {
		return kind, true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.optional[gvk]
	if !ok {
		return ManagedKind{}, false, fmt.Errorf("the set has no kind %s", gvk)
	}
	if o.added && o.kind.hasSynced() {
		return o.kind, true, nil
	}
	o.skipped[cache.MetaObjectToName(owner)] = "" // The first check after Add queues the owner.
	if o.added && o.awaited.IsZero() {
		o.awaited = now
	}
	if o.added && now.Sub(o.awaited) < listTimeout {
		return ManagedKind{}, false, &controller.UnfilledError{}
	}
	return ManagedKind{}, false, nil
}

// skip records that an owner lacks a child of an optional kind.
func (s *Set) skip(gvk schema.GroupVersionKind, owner metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.optional[gvk].skip(owner)
}

// awaitUnserved reports whether an optional kind of this name is not served, or not listed yet. The owner
// is then queued when the kind has been listed.
func (s *Set) awaitUnserved(kind string, owner metav1.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gvk, o := range s.optional {
		if gvk.Kind == kind && (!o.added || !o.kind.hasSynced()) {
			o.skipped[cache.MetaObjectToName(owner)] = ""
			return true
		}
	}
	return false
}

// written returns the kinds that can be written: all fixed kinds, and the optional kinds that are
// served.
func (s *Set) written() map[schema.GroupVersionKind]ManagedKind {
	if len(s.optional) == 0 {
		return s.kinds
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := make(map[schema.GroupVersionKind]ManagedKind, len(s.kinds)+len(s.optional))
	for gvk, kind := range s.kinds {
		kinds[gvk] = kind
	}
	for gvk, o := range s.optional {
		if o.added && o.kind.hasSynced() {
			kinds[gvk] = o.kind
		}
	}
	return kinds
}

// cannotBeListed reports whether an optional kind is served, and its first list does not come.
func (s *Set) cannotBeListed(gvk schema.GroupVersionKind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.optional[gvk]
	return ok && o.added && !o.kind.hasSynced()
}

func (s *Set) isOptional(gvk schema.GroupVersionKind) bool {
	_, ok := s.optional[gvk]
	return ok
}

func (k ManagedKind) hasSynced() bool {
	for _, informer := range k.informers {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

// isUnserved reports whether an error means that the API server does not serve a kind. Admission may
// answer NotFound (404), too, about an object that it misses.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
