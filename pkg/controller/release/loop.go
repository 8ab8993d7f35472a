// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Options are what a release kind may choose. The zero value is ready to use.
type Options[T kind.Object[T]] struct {
	// Gates are evaluated after suspend and the upgrade window, which every release kind has, and
	// before the gates of [Desired].
	Gates []Gate
	// Rollout limits how a change reaches the objects that have not changed themselves.
	Rollout Rollout
	// Sources are the Secrets and ConfigMaps that an object names.
	Sources Sources[T]
	// WaitFor returns the objects that must be deployed or ready before a change of the release. They may
	// be of any kind with the condition Ready or Deployed, in the namespace of the object.
	WaitFor func(T) []Dependency
	// Dependencies know the objects of WaitFor. All kinds of a process share one. Without it, WaitFor may
	// name only objects of the kind itself.
	Dependencies *Dependencies
	// License is the gate of a license server.
	License License[T]
	// Secrets returns texts of an object that no message may show. Optional.
	Secrets func(T) []string
}

// Loop makes the passes over the objects of a release kind.
type Loop[T kind.Object[T], S any] struct {
	*kind.Loop[T, S]
	*Lifecycle

	definition kind.Definition[T, S]
	binding    Binding[T, S]
	options    Options[T]
	owners     owners

	dependencies *Dependencies
}

// NewLoop returns the loop of a kind whose objects each have one release. Definition.Finalizer is
// required. NewLoop sets Suspends of the definition, and, unless the definition has them, Steps,
// Conditions, Hold, Redact, Finalize, LetGo and Orphaned: the release is uninstalled with its object, or let
// go with it. Annotations, Gates, Events, Finalized and Forget of the definition are added to the ones of a
// release. A change that one of the definition's gates holds is no warning in an event. Call NewLoop before
// the engine runs.
func NewLoop[T kind.Object[T], S any](
	definition kind.Definition[T, S], deps kind.Deps, engine Engine, binding Binding[T, S], options Options[T],
) (*Loop[T, S], error) {
	if definition.Finalizer == "" {
		return nil, fmt.Errorf("%s: a release kind needs a finalizer, which uninstalls the releases", definition.Name)
	}
	if err := options.Sources.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", definition.Name, err)
	}
	l := &Loop[T, S]{
		Lifecycle:  newLifecycle(engine, deps.Recorder, deps.Metrics.Drift(definition.Name), options.Gates...),
		definition: definition, binding: binding, options: options, dependencies: options.Dependencies,
	}
	if l.dependencies == nil {
		l.dependencies = &Dependencies{}
	}
	engine.Subscribe(l.changed)
	var err error
	if l.Loop, err = kind.New(l.completed(), deps); err != nil {
		return nil, err
	}
	if l.rollouts, err = newRollouts(l.Loop, deps, engine, l.statusOf, options.Rollout); err != nil {
		return nil, err
	}
	if err := l.watchDependants(deps.Informers); err != nil {
		return nil, fmt.Errorf("%s: %w", definition.Name, err)
	}
	l.Await(controller.NamedSync{Name: "release records", HasSynced: engine.HasSynced})
	return l, nil
}

// statusOf returns the status of the release of an object.
func (l *Loop[T, S]) statusOf(object T) *releasev1alpha1.ReleaseStatus {
	return l.binding.Status(l.definition.Status(object))
}

// completed returns the definition with what a release kind has.
func (l *Loop[T, S]) completed() kind.Definition[T, S] {
	d := l.definition
	d.Suspends = true
	if d.Steps == nil {
		d.Steps = func(ctx context.Context, p *kind.Pass[T]) error { return l.Steps(ctx, p, l.binding) }
	}
	d.Gates = append(l.ownGates(), heldBySuspend(), heldByWindow(), heldByRollout(), heldByTakeover(), heldByLicense())
	d.Annotations = append(slices.Clone(d.Annotations), releasev1alpha1.AnnotationForceAt, releasev1alpha1.AnnotationAdoptRelease)
	if d.Conditions == nil {
		d.Conditions = func(s *S) *[]metav1.Condition { return &l.binding.Status(s).Conditions }
	}
	if d.Hold == nil {
		d.Hold = func(written, next S) time.Duration {
			return hold(*l.binding.Status(&written), *l.binding.Status(&next))
		}
	}
	if d.Redact == nil {
		d.Redact = l.Redact
	}
	if d.Finalize == nil {
		d.Finalize = l.finalize
	}
	if d.LetGo == nil {
		d.LetGo = l.letGo
	}
	if d.Orphaned == nil {
		d.Orphaned = func(ctx context.Context, p *kind.Pass[T]) (bool, error) {
			release, policy := l.binding.Release(p.Observed)
			return l.Orphaned(ctx, release, *l.statusOf(p.Observed), policy)
		}
	}
	d.Finalized, d.Events, d.Forget = l.finalized, l.events, l.forget
	return d
}

// Steps make one pass over an object with a binding, which may keep its findings in the pass. Steps of a
// definition call it.
func (l *Loop[T, S]) Steps(ctx context.Context, p *kind.Pass[T], binding Binding[T, S]) error {
	if !l.engine.HasSynced() {
		// Without its record, a release would be installed again.
		return fmt.Errorf("release records: %w", controller.ErrNotSynced)
	}
	s := &subject{
		pass: p, object: p.Object, status: l.statusOf(p.Object),
		written: func() *releasev1alpha1.ReleaseStatus { return l.statusOf(p.Observed) },
	}
	f := Facts{
		Key: p.Key(), UID: p.Object.GetUID(), Generation: p.Object.GetGeneration(),
		Created: p.Object.GetCreationTimestamp().Time, Reason: p.Reason, Now: p.Now,
	}
	f.Requested, f.ForceAt = l.observeRequest(ctx, s, f.Key)
	var err error
	if f.Desired, err = l.desired(ctx, p, binding); f.Desired.Release.Chart == nil {
		return controller.Terminal(errors.Join(fmt.Errorf("the binding of %s returned a release without a chart", f.Key), err))
	}
	l.owners.add(f.Key, f.Desired.Release.Key())
	return l.reconcile(ctx, s, f, err)
}

// desired returns the desired state of the release of an object, which binding and options determine.
func (l *Loop[T, S]) desired(ctx context.Context, p *kind.Pass[T], binding Binding[T, S]) (Desired, error) {
	desired := Desired{AdoptHint: fmt.Sprintf("give the %s another name, or have it take over the release with the annotation %s: \"true\"",
		l.definition.GroupVersionKind.Kind, releasev1alpha1.AnnotationAdoptRelease)}
	desired.Release, desired.Policy = binding.Release(p.Object)
	found, sourcesErr := l.observeSources(ctx, p.Object, desired.Release.Chart)
	desired.Release.Values, desired.Keys, desired.Sources = found.values, found.keys, found.version
	desired.Redactor = found.redactor(l.secrets(p.Object))
	desired, err := binding.Desired(ctx, p, desired)
	desired.useSources(found)
	if sourcesErr != nil {
		desired.Known, err = false, errors.Join(sourcesErr, err)
	}
	if err == nil {
		var blockers []Blocker
		desired.DependencyBecameReady, blockers, err = l.observeDependencies(p)
		desired.Blockers = append(desired.Blockers, blockers...)
	}
	desired.Release.OwnerGeneration = p.Object.GetGeneration()
	desired.Gates = append(slices.Clip(desired.Gates), l.options.License.gate(p.Object))
	desired.suspendFor(p.Pause, p.Object)
	desired.redactFor(p.Key(), *l.statusOf(p.Observed))
	return desired, err
}

// secrets returns the texts of an object that no message may show.
func (l *Loop[T, S]) secrets(object T) []string {
	if l.options.Secrets == nil {
		return nil
	}
	return l.options.Secrets(object)
}

// Redact removes from an error the secrets of an object and of its sources, as far as these can be read: a
// Secret that cannot be read now was not read before the error.
func (l *Loop[T, S]) Redact(ctx context.Context, object T, err error) error {
	var desired Desired
	desired.Release, _ = l.binding.Release(object)
	found, _ := l.observeSources(ctx, object, desired.Release.Chart)
	desired.Redactor = found.redactor(l.secrets(object))
	desired.redactFor(cache.MetaObjectToName(object), *l.statusOf(object))
	return desired.Redactor.Error(err)
}

// ownGates are the gates of the definition and of the options, for metrics.
func (l *Loop[T, S]) ownGates() []kind.Gate {
	gates := slices.Clone(l.definition.Gates)
	if l.options.WaitFor != nil {
		gates = append(gates, heldByDependency()...)
	}
	return append(gates, l.options.Sources.gates()...)
}

// Own replaces the releases that may belong to an object. Without it, an object has the releases of
// its passes. A change of one starts a pass.
func (l *Loop[T, S]) Own(key cache.ObjectName, releases ...cache.ObjectName) {
	l.owners.set(key, releases)
}

// changed enqueues the objects of a release that the engine reports. Most releases of a cluster may
// have other owners. An object that is not cached yet is enqueued by its own event.
func (l *Loop[T, S]) changed(release cache.ObjectName, change helm.Change) {
	for _, owner := range l.owners.of(release) {
		if _, ours := l.Cached().Get(owner); ours {
			l.Queue().Enqueue(owner, reasonOf(change))
		}
	}
}

// reasonOf returns the reason of a pass that follows a change of the release.
func reasonOf(change helm.Change) controller.Reason {
	if change == helm.HealthChanged {
		return controller.HealthChange
	}
	return controller.Drift
}

// events returns the events for the change between two versions of an object.
func (l *Loop[T, S]) events(before, after T) []event.Event {
	_, policy := l.binding.Release(after)
	s := l.statusOf(after)
	found := eventsOf(*l.statusOf(before), *s, policy, heldReasons(l.ownGates(), s.Conditions)...)
	if l.definition.Events != nil {
		found = append(found, l.definition.Events(before, after)...)
	}
	return found
}

// End drops the objects of a loop that has ended from what outlives it: the engine, the sources and the
// dependencies.
func (l *Loop[T, S]) End(keys []cache.ObjectName) {
	for _, key := range keys {
		l.forget(key)
	}
	l.dependencies.unregister(l.definition.GroupVersionKind.GroupKind())
}

// forget removes the state of a deleted object.
func (l *Loop[T, S]) forget(key cache.ObjectName) {
	l.Forget(key)
	l.owners.forget(key)
	l.dependencies.use(l.owner(key), nil)
	if reader := l.options.Sources.Reader; reader != nil {
		reader.Use(l.owner(key), nil)
	}
	if l.definition.Forget != nil {
		l.definition.Forget(key)
	}
}

// finalize uninstalls the release of an object. The status reports a failure.
func (l *Loop[T, S]) finalize(ctx context.Context, p *kind.Pass[T]) (event.Event, error) {
	release, policy := l.binding.Release(p.Observed)
	done, _, err := l.Uninstall(ctx, p, release, *l.statusOf(p.Observed), policy)
	return done, l.blockDeletion(ctx, p, err)
}

// letGo lets the release of an object go. The status reports a failure.
func (l *Loop[T, S]) letGo(ctx context.Context, p *kind.Pass[T]) (event.Event, error) {
	release, policy := l.binding.Release(p.Observed)
	done, err := l.LetGo(ctx, release, *l.statusOf(p.Observed), policy)
	return done, l.blockDeletion(ctx, p, err)
}

// blockDeletion reports why the deletion of an object waits, and returns the cause without secrets.
func (l *Loop[T, S]) blockDeletion(ctx context.Context, p *kind.Pass[T], err error) error {
	if err == nil {
		return nil
	}
	if l.definition.Redact == nil {
		err = l.Redact(ctx, p.Object, err)
	} else {
		err = l.definition.Redact(ctx, p.Object, err)
	}
	p.Conditions().MarkReconciling(releasev1alpha1.ReasonUninstallFailed, "Deletion waits: "+err.Error())
	return err
}

// finalized clears the release from the status while finalizers of other owners keep the object.
func (l *Loop[T, S]) finalized(p *kind.Pass[T], done event.Event) {
	others := kind.OthersFinalizers(p.Object, append([]string{l.definition.Finalizer}, l.definition.FormerFinalizers...)...)
	reportUninstalled(l.statusOf(p.Object), p.Conditions(), done, others)
	if l.definition.Finalized != nil {
		l.definition.Finalized(p, done)
	}
}

// heldReasons returns the reasons of the gates that hold an object and need no user. They are no
// warnings.
func heldReasons(gates []kind.Gate, conditions []metav1.Condition) []string {
	var reasons []string
	for _, gate := range gates {
		if gate.Holds(conditions) && !gate.NeedsUser {
			reasons = append(reasons, meta.FindStatusCondition(conditions, gate.Condition).Reason)
		}
	}
	return reasons
}
