// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/pkg/controller/rollout"
	"github.com/example/demoapp-controller/pkg/overlay"
)

// Deps are the dependencies of a loop.
type Deps struct {
	// Informers are the informers of the kind, by watched namespace.
	Informers map[string]cache.SharedIndexInformer
	Recorder  events.EventRecorder
	// Metrics receives the measurements. If it is nil, nothing is measured.
	Metrics *controller.Metrics
	Clock   clock.WithTicker
	// ResyncPeriod is the time between two periodic passes, with a jitter of 10 %.
	ResyncPeriod time.Duration
	// Workers is the number of objects that are reconciled at a time; 0 is the default
	// of the queue.
	Workers int
	// Namespaces shows which namespaces are paused; nil if the operator may not watch them.
	Namespaces *controller.Namespaces
	// Refuse returns why the objects of a namespace are not reconciled; "" if they are.
	// Their status is Stalled with this message. Optional.
	Refuse func(namespace string) (why string)
	// Shards are the namespaces whose objects are reconciled. If it is nil, these are all.
	Shards *controller.Shards
	// Rollout limits the rollout of newer pod templates to the objects of a kind with children. See
	// [rollout.NewFleet] for the zero value.
	Rollout rollout.Limits
}

// Loop makes the passes over the objects of one kind.
type Loop[T Object[T], S any] struct {
	kind   Definition[T, S]
	queue  *controller.Controller
	cached controller.Scoped[T]
	// views combine the caches with the writes of the loop.
	views overlay.Views[T]
	// confirmed has the UIDs of the objects that the API server has shown to this loop in an
	// answer.
	confirmed controller.Memory[types.UID]
	// unfinalized has the objects that the watch has reported as deleted despite their finalizer.
	unfinalized controller.Memory[T]
	// policies are the decisions of isOrphaned. They may be lost.
	policies    controller.Memory[policy]
	terminating terminatingNamespaces
	held        status.Throttle[T]
	informers   map[string]cache.SharedIndexInformer
	mu          sync.Mutex
	synced      []controller.NamedSync // guarded by mu
	recorder    events.EventRecorder
	clock       clock.PassiveClock
	resync      time.Duration
	refuse      func(namespace string) (why string)

	namespaces *controller.Namespaces
	// unwatchNamespaces ends the events of namespaces.
	unwatchNamespaces func()

	metrics      *controller.Metrics
	cachesSynced []cache.InformerSynced
	// countRollout counts the objects of a rollout; nil without one.
	countRollout func() controller.RolloutCounts
	// fleet is the rollout that children take part in; nil without one.
	fleet         *rollout.Fleet
	rolloutLimits rollout.Limits
	first         firstReady
	becameReady   func(sinceCreation time.Duration)
}

// New returns a loop and adds its event handlers to the informers. It starts nothing.
func New[T Object[T], S any](kind Definition[T, S], deps Deps) (*Loop[T, S], error) {
	l := &Loop[T, S]{
		kind: kind, informers: deps.Informers, cached: controller.Scoped[T]{}, views: overlay.NewViews[T](deps.Informers),
		recorder: deps.Recorder, clock: deps.Clock, resync: deps.ResyncPeriod, refuse: deps.Refuse,
		rolloutLimits: deps.Rollout, metrics: deps.Metrics, becameReady: deps.Metrics.TimeToReady(kind.Name), namespaces: deps.Namespaces,
	}
	l.kind.Annotations = append(slices.Clone(kind.Annotations),
		apimeta.AnnotationPaused, apimeta.AnnotationPausedReason, apimeta.AnnotationRequestedAt, apimeta.AnnotationForceAt)
	l.kind.Gates = append(slices.Clone(kind.Gates), heldByPause)
	l.queue = controller.New(controller.ReconcilerFunc(l.Reconcile), controller.Options{
		Name: kind.Name, Workers: deps.Workers, Clock: deps.Clock, Metrics: deps.Metrics, Shards: deps.Shards, Forget: l.forget,
	})
	for namespace, informer := range deps.Informers {
		l.cached[namespace] = informer.GetIndexer()
		l.cachesSynced = append(l.cachesSynced, informer.HasSynced)
		own, err := controller.AddHandler(kind.Name, informer, finalizerHandler[T, S]{
			TypedResourceEventHandler: controller.SpecHandler[T](l.queue, l.kind.Annotations...), loop: l,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Name, err)
		}
		if _, err := controller.AddHandler(kind.Name, informer, overlay.Handler[T]{View: l.views[namespace]}); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Name, err)
		}
		l.synced = append(l.synced, own)
	}
	synced, stop, err := deps.Namespaces.Watch(l.enqueueNamespace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Name, err)
	}
	l.synced, l.unwatchNamespaces = append(l.synced, synced...), stop
	return l, nil
}

// wrote records the API server's answer to a write of this process.
func (l *Loop[T, S]) wrote(object T) {
	l.confirmed.Set(cache.MetaObjectToName(object), object.GetUID())
	l.views.In(object.GetNamespace()).Wrote(object)
}

// gone records that an object is deleted, although the cache may still have it.
func (l *Loop[T, S]) gone(object metav1.Object) { l.views.In(object.GetNamespace()).Deleted(object) }

// Queue returns the queue of the kind's objects.
func (l *Loop[T, S]) Queue() *controller.Controller { return l.queue }

// GroupVersionKind returns the kind of the objects.
func (l *Loop[T, S]) GroupVersionKind() schema.GroupVersionKind { return l.kind.GroupVersionKind }

// CountRollout adds the counts of a rollout to the metrics of the kind. It has no effect once Run
// runs.
func (l *Loop[T, S]) CountRollout(count func() controller.RolloutCounts) { l.countRollout = count }

// Rollout returns the counts of the rollout; zero without one.
func (l *Loop[T, S]) Rollout() controller.RolloutCounts {
	if l.countRollout == nil {
		return controller.RolloutCounts{}
	}
	return l.countRollout()
}

// Cached returns the caches of the kind.
func (l *Loop[T, S]) Cached() controller.Scoped[T] { return l.cached }

// Newest returns the newest version of a cached object: the cached version, or a write of this
// process that the cache does not show yet. It returns nil if the object is gone.
func (l *Loop[T, S]) Newest(cached T) T {
	return l.newest(cache.MetaObjectToName(cached))
}

// newest returns the newest known version of an object; nil if it is gone. A loop creates no
// objects, so an object that the cache lacks is gone.
func (l *Loop[T, S]) newest(key cache.ObjectName) T {
	var none T
	object, exists := l.views.In(key.Namespace).Get(key.Namespace, key.Name)
	if _, cached := l.cached.Get(key); !exists || !cached {
		return none
	}
	return object
}

// Await adds caches that must sync before the first pass. It has no effect once Run runs.
func (l *Loop[T, S]) Await(synced ...controller.NamedSync) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = append(l.synced, synced...)
}

// Synced returns the caches that must sync before the first pass.
func (l *Loop[T, S]) Synced() []controller.NamedSync {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.synced)
}

// Run makes passes until stop or lead ends, see [controller.Controller.Run]. Meanwhile, the
// metrics count the objects of the kind.
func (l *Loop[T, S]) Run(stop, lead context.Context) error {
	defer l.metrics.RegisterObjects(l.kind.Name, l.countObjects)()
	defer l.unwatchNamespaces()
	defer l.queue.Shards().Watch(l.openShard, l.closeShard)()
	return l.queue.Run(stop, lead, l.Synced()...)
}

// Reconcile makes one pass. It implements [controller.Reconciler].
func (l *Loop[T, S]) Reconcile(ctx context.Context, key cache.ObjectName, why controller.Reason) (controller.Result, error) {
	var none T
	object := l.newest(key)
	if object != none && object.GetDeletionTimestamp() != nil && l.finalizes(object) {
		newest, err := l.confirmDeletion(ctx, object)
		if err != nil {
			return controller.Result{}, l.blockDeletion(ctx, l.newPass(object, why), err)
		}
		object = newest
	}
	if object == none {
		return l.reconcileGone(ctx, key, why)
	}
	ctx = controller.LogGeneration(ctx, object.GetGeneration())
	if object.GetDeletionTimestamp() != nil {
		l.leaveRollout(key)
		return l.reconcileDeletion(ctx, l.newPass(object, why))
	}
	if l.namespaces.IsTerminating(key.Namespace) || l.terminating.has(key.Namespace, l.clock.Now()) {
		return controller.Result{RequeueAfter: controller.Jitter(terminatingRetry)}, nil
	}
	if p := l.withheld(object, why); p != nil {
		l.leaveRollout(key)
		return controller.Result{RequeueAfter: p.Next}, p.Commit(ctx)
	}
	object, err := l.ensureFinalizer(ctx, object)
	if err != nil {
		return controller.Result{}, err
	}
	p, end := l.newPass(object, why), StatusKept
	defer func() {
		for _, f := range p.afterCommit {
			f(end)
		}
	}()
	if !l.kind.Suspends {
		p.Conditions().Remove(apimeta.ConditionSuspended)
	}
	err = l.kind.Steps(ctx, p)
	if controller.IsPending(err) || controller.IsInterrupted(ctx, err) {
		return controller.Result{}, err // The pass observed nothing, so the status stays.
	}
	if l.terminating.observe(key.Namespace, err, l.clock.Now()) {
		return controller.Result{RequeueAfter: controller.Jitter(terminatingRetry)}, nil
	}
	if wait := l.hold(p, err); wait > 0 {
		l.queue.EnqueueAfter(key, wait, controller.HealthChange)
		return controller.Result{RequeueAfter: p.Next}, err
	}
	p.failed = controller.IsFailure(ctx, err)
	commitErr := p.Commit(ctx)
	if end = StatusCommitted; commitErr != nil {
		end = StatusLost
	}
	return controller.Result{RequeueAfter: p.Next}, join(err, commitErr)
}

// withheld returns a pass that only reports why the object is not changed, or nil if it may be.
func (l *Loop[T, S]) withheld(object T, why controller.Reason) *Pass[T] {
	if pause := l.PauseOf(object); pause.isSet() && !l.kind.Suspends {
		p := l.newPass(object, why)
		l.suspend(p)
		return p
	}
	if refusal := l.refused(object); refusal != "" {
		p := l.newPass(object, why)
		p.Conditions().MarkStalled(apimeta.ReasonSystemNamespace, refusal)
		p.Next = 0 // Only another start of the operator ends the refusal.
		return p
	}
	return nil
}

// refused returns why an object is not reconciled.
func (l *Loop[T, S]) refused(object T) string {
	if l.refuse == nil {
		return ""
	}
	return l.refuse(object.GetNamespace())
}

func (l *Loop[T, S]) newPass(object T, why controller.Reason) *Pass[T] {
	p := &Pass[T]{
		Observed: object, Object: object.DeepCopy(), Reason: why, Now: l.clock.Now(), Next: controller.Jitter(l.resync), Pause: l.PauseOf(object),
		conditions: func(object T) *[]metav1.Condition { return l.kind.Conditions(l.kind.Status(object)) },
		loop:       l,
	}
	if held, ok := l.held.Held(p.Key(), object.GetUID()); ok {
		*l.kind.Status(p.Object) = *l.kind.Status(held.DeepCopy())
	}
	return p
}

// hold holds the status of a pass if the kind allows it, and returns for how long. hold
// uses the current time instead of p.Now, because a pass may take long.
func (l *Loop[T, S]) hold(p *Pass[T], err error) time.Duration {
	written, next := l.kind.Status(p.Observed), l.kind.Status(p.Object)
	var d time.Duration
	if l.kind.Hold != nil && err == nil {
		d = l.kind.Hold(*written, *next)
	}
	if d <= 0 && l.kind.Interval <= 0 {
		return 0
	}
	status.KeepTransitionTimes(*p.conditions(p.Observed), *p.conditions(p.Object))
	if apiequality.Semantic.DeepEqual(written, next) {
		return 0
	}
	return l.held.Hold(p.Key(), p.Object, d, l.kind.Interval, l.clock.Now())
}

// commit writes the status if the pass changed it, and emits the events for the change.
func (l *Loop[T, S]) commit(ctx context.Context, p *Pass[T]) error {
	status.KeepTransitionTimes(*p.conditions(p.Observed), *p.conditions(p.Object))
	written, wrote, err := status.Commit(ctx, p.Object.GetName(), *l.kind.Status(p.Observed), *l.kind.Status(p.Object), func(ctx context.Context) (T, error) {
		return l.apply(ctx, p)
	})
	if err != nil {
		return l.redacted(ctx, p.Object, err)
	}
	l.held.Wrote(p.Key(), p.Object, l.kind.Interval, l.clock.Now())
	if !wrote {
		return nil
	}
	l.wrote(written)
	for _, e := range l.transitions(p.Observed, p.Object) {
		if p.failed && e.Type == corev1.EventTypeWarning {
			event.Send(l.recorder, p.Object, e) // The line about the error of the pass says the same.
		} else {
			event.Emit(ctx, l.recorder, p.Object, e)
		}
	}
	// The answer counts, because a CRD may drop conditions.
	if l.first.wrote(written, *p.conditions(p.Observed), *p.conditions(written)) {
		l.becameReady(max(0, l.clock.Since(written.GetCreationTimestamp().Time)))
	}
	p.Observed = written
	return nil
}

// apply writes the status of an object. The error is NotFound if another object has its name
// now. The API server ignores the UID in a status, so the write names the resourceVersion. If
// the object has changed meanwhile, the status is written to its newest version.
func (l *Loop[T, S]) apply(ctx context.Context, p *Pass[T]) (T, error) {
	write := func(version T) (T, error) {
		return status.Apply(ctx, l.kind.Client(version.GetNamespace()), status.Target{
			GroupVersionKind: l.kind.GroupVersionKind, Object: version, FieldManager: l.kind.FieldManager,
		}, *l.kind.Status(p.Object))
	}
	written, err := write(p.Observed)
	if !apierrors.IsConflict(err) {
		return written, err
	}
	live, err := l.live(ctx, p.Object)
	if err != nil {
		return live, err
	}
	if live.GetUID() != p.Object.GetUID() {
		kind := l.kind.GroupVersionKind
		return live, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, live.GetName())
	}
	return write(live)
}

func (l *Loop[T, S]) transitions(before, after T) []event.Event {
	was, is := *l.kind.Conditions(l.kind.Status(before)), *l.kind.Conditions(l.kind.Status(after))
	warnings := warningEvents(l.kind.Warnings, was, is)
	if l.kind.Events != nil {
		return append(l.kind.Events(before, after), warnings...)
	}
	if e, ok := event.Transition(was, is); ok {
		return append(warnings, e)
	}
	return warnings
}

func (l *Loop[T, S]) redacted(ctx context.Context, object T, err error) error {
	if l.kind.Redact == nil {
		return err
	}
	return l.kind.Redact(ctx, object, err)
}

// join adds the error of a status write to the error of the pass, in one line.
func join(err, commitErr error) error {
	if err == nil || commitErr == nil {
		return errors.Join(err, commitErr)
	}
	return fmt.Errorf("%w (and the status could not be written: %w)", err, commitErr)
}

// forget drops the state of an object that is gone.
func (l *Loop[T, S]) forget(key cache.ObjectName) {
	l.held.Forget(key)
	l.first.pending.Forget(key)
	l.confirmed.Forget(key)
	l.unfinalized.Forget(key)
	l.policies.Forget(key)
	if l.fleet != nil {
		l.fleet.Forget(key)
	}
	if l.kind.Forget != nil {
		l.kind.Forget(key)
	}
}
