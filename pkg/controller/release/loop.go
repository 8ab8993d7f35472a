// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/helm"
)

// Subscription is an engine that reports changes of releases. A [Lifecycle] needs one,
// because otherwise drift and health would start no pass.
type Subscription struct{ engine Engine }

// Subscribe calls changed after each change of a release that the engine observes. Most
// releases of a cluster may have other owners. Call Subscribe before the engine runs.
func Subscribe(engine Engine, changed func(release cache.ObjectName, change helm.Change)) Subscription {
	engine.Subscribe(changed)
	return Subscription{engine}
}

// Why returns the reason of a pass that follows a change of the release.
func Why(change helm.Change) controller.Reason {
	if change == helm.HealthChanged {
		return controller.HealthChange
	}
	return controller.Drift
}

// Options are what a release kind may choose. The zero value is ready to use.
type Options struct {
	// Gates are evaluated before those of the binding.
	Gates []Gate
	// Rollout limits how a change reaches the objects that have not changed themselves.
	Rollout Rollout
}

// NewLoop returns the loop of a kind whose objects each have one release, with the name and
// the namespace of the object. It sets the steps of the definition, and adds the annotations
// of a release. Unless the definition has them, it also sets Finalize, LetGo, Orphaned, Finalized and
// Events: the release is uninstalled with its object, or let go with it, and a change that one of the definition's gates
// holds is no warning. The default of Events does not report drift that the policy leaves.
// Finalizer is required.
func NewLoop[T kind.Object[T], S any](
	definition kind.Definition[T, S], deps kind.Deps, engine Engine, binding Binding[T], options Options,
) (*kind.Loop[T, S], error) {
	if definition.Finalizer == "" {
		return nil, fmt.Errorf("%s: a release kind needs a finalizer, which uninstalls the releases", definition.Name)
	}
	var loop *kind.Loop[T, S]
	subscription := Subscribe(engine, func(release cache.ObjectName, change helm.Change) {
		// An object that is not cached yet is enqueued by its own event.
		if _, ours := loop.Cached().Get(release); ours {
			loop.Queue().Enqueue(release, Why(change))
		}
	})
	l := New(subscription, deps.Recorder, deps.Metrics.Drift(definition.Name), nil, options.Gates...)
	loop, err := kind.New(defaulted(definition, l, binding), deps)
	if err != nil {
		return nil, err
	}
	fleet, err := NewFleet(loop, deps, engine, binding.Status, options.Rollout)
	if err != nil {
		return nil, err
	}
	l.rollouts = fleet
	loop.Await(controller.NamedSync{Name: "release records", HasSynced: engine.HasSynced})
	return loop, nil
}

// defaulted returns the definition with the functions of a release kind.
func defaulted[T kind.Object[T], S any](definition kind.Definition[T, S], l *Lifecycle, binding Binding[T]) kind.Definition[T, S] {
	definition.Steps = Steps(l, binding)
	definition.Gates = append(slices.Clone(definition.Gates), HeldByRollout(), HeldByTakeover())
	definition.Annotations = append(slices.Clone(definition.Annotations),
		releasev1alpha1.AnnotationForceAt, releasev1alpha1.AnnotationAdoptRelease)
	if definition.Finalize == nil {
		definition.Finalize = func(ctx context.Context, p *kind.Pass[T]) (event.Event, error) { return finalize(ctx, l, binding, p) }
	}
	if definition.LetGo == nil {
		definition.LetGo = func(ctx context.Context, p *kind.Pass[T]) (event.Event, error) { return letGo(ctx, l, binding, p) }
	}
	if definition.Orphaned == nil {
		definition.Orphaned = func(ctx context.Context, p *kind.Pass[T]) (bool, error) {
			desired, _ := binding.Desired(ctx, p) // As in finalize.
			return l.Orphaned(ctx, desired.Release, *binding.Status(p.Observed), desired.Policy)
		}
	}
	if definition.Finalized == nil {
		definition.Finalized = func(p *kind.Pass[T], done event.Event) {
			others := kind.OthersFinalizers(p.Object, append([]string{definition.Finalizer}, definition.FormerFinalizers...)...)
			ReportUninstalled(binding.Status(p.Object), p.Conditions(), done, others)
		}
	}
	if definition.Events == nil {
		definition.Events = func(before, after T) []event.Event {
			held := heldReasons(definition.Gates, binding.Status(after).Conditions)
			return Events(*binding.Status(before), *binding.Status(after), releasev1alpha1.ReleasePolicy{}, held...)
		}
	}
	if forget := definition.Forget; forget == nil {
		definition.Forget = l.Forget
	} else {
		definition.Forget = func(key cache.ObjectName) {
			l.Forget(key)
			forget(key)
		}
	}
	return definition
}

// heldReasons returns the reasons of the gates that hold an object. They are no warnings.
func heldReasons(gates []kind.Gate, conditions []metav1.Condition) []string {
	var reasons []string
	for _, gate := range gates {
		if condition := meta.FindStatusCondition(conditions, gate.Condition); condition != nil && condition.Status == gate.Status {
			reasons = append(reasons, condition.Reason)
		}
	}
	return reasons
}

// finalize uninstalls the release of an object. The status reports a failure.
func finalize[T kind.Object[T]](ctx context.Context, l *Lifecycle, binding Binding[T], p *kind.Pass[T]) (event.Event, error) {
	desired, _ := binding.Desired(ctx, p) // The release without values is always set.
	done, _, err := l.Uninstall(ctx, p, desired.Release, *binding.Status(p.Observed), desired.Policy)
	return done, blocked(desired, *binding.Status(p.Observed), p, err)
}

// letGo lets the release of an object go. The status reports a failure.
func letGo[T kind.Object[T]](ctx context.Context, l *Lifecycle, binding Binding[T], p *kind.Pass[T]) (event.Event, error) {
	desired, _ := binding.Desired(ctx, p) // As in finalize.
	done, err := l.LetGo(ctx, desired.Release, *binding.Status(p.Observed), desired.Policy)
	return done, blocked(desired, *binding.Status(p.Observed), p, err)
}

// blocked reports why the deletion of an object waits, and returns the cause without secrets.
func blocked[T kind.Object[T]](desired Desired, s releasev1alpha1.ReleaseStatus, p *kind.Pass[T], err error) error {
	if err == nil {
		return nil
	}
	desired.redactFor(p.Key(), s)
	err = desired.Redactor.Error(err)
	p.Conditions().MarkReconciling(releasev1alpha1.ReasonUninstallFailed, "Deletion waits: "+err.Error())
	return err
}
