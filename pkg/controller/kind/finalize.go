// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kind/finalizer"
	"github.com/example/demoapp-controller/pkg/ssa"
)

func (l *Loop[T, S]) ensureFinalizer(ctx context.Context, object T) (T, error) {
	var ensured T
	var err error
	if client := l.kind.Client(object.GetNamespace()); l.kind.Finalizer == "" {
		ensured, err = finalizer.Remove(ctx, client, object, l.kind.FormerFinalizers...)
	} else {
		ensured, err = finalizer.Ensure(ctx, client, object, l.kind.Finalizer, l.kind.FormerFinalizers...)
	}
	if err != nil {
		return object, l.redacted(ctx, object, err)
	}
	if ensured != object {
		l.wrote(ensured)
	}
	return ensured, nil
}

// reconcileDeletion makes a pass over an object that is being deleted.
func (l *Loop[T, S]) reconcileDeletion(ctx context.Context, p *Pass[T]) (controller.Result, error) {
	err := l.finalize(ctx, p)
	if errors.Is(err, ErrDeletionWaits) {
		return controller.Result{RequeueAfter: p.Next}, p.Commit(ctx)
	}
	if err != nil {
		return controller.Result{}, err
	}
	return l.awaitOthers(ctx, p)
}

// finalize calls Finalize or LetGo, and removes the finalizer. If other finalizers keep a finalized
// object, it writes the status between the two. Every step is idempotent, because an earlier pass
// may have been interrupted.
func (l *Loop[T, S]) finalize(ctx context.Context, p *Pass[T]) error {
	own := l.finalizers()
	if !finalizer.Has(p.Observed, own...) {
		return nil
	}
	var done event.Event
	orphaned := false
	if l.kind.Finalizer != "" {
		var err error
		if orphaned, err = l.isOrphaned(ctx, p); err != nil {
			return l.blockDeletion(ctx, p, err)
		}
		if done, err = l.end(ctx, p, orphaned); errors.Is(err, ErrDeletionWaits) {
			return err
		} else if err != nil {
			p.failed = controller.IsFailure(ctx, err)
			return join(err, p.Commit(ctx))
		}
	}
	// Write the status before the finalizer is removed. After the removal, a crash could
	// prevent the write, because this controller makes no further pass. A status that is invalid does
	// not keep the finalizer: Kubernetes 1.30 refuses each status of an object whose spec breaks a CEL
	// rule that is newer than the object.
	if !orphaned && OthersFinalizers(p.Object, own...) != "" && l.readyReason(p.Observed) != apimeta.ReasonFinalizerFailed {
		if err := l.reportFinalized(ctx, p, done); err != nil && !apierrors.IsInvalid(err) {
			return err
		}
	}
	ended, err := finalizer.Remove(ctx, l.kind.Client(p.Object.GetNamespace()), p.Observed, own...)
	if ssa.IsOutdated(err, p.Object.GetName()) {
		return l.redacted(ctx, p.Object, err) // The watch event of the change enqueues the object.
	}
	if err != nil {
		return l.blockDeletion(ctx, p, err)
	}
	// Emit the event after the removal, so that a repeated pass does not emit it again.
	if done != (event.Event{}) {
		event.Emit(ctx, l.recorder, p.Object, done)
	}
	if len(ended.GetFinalizers()) == 0 || finalizer.Has(ended, own...) {
		l.gone(ended) // The object is deleted: this was its last finalizer, or it was gone before.
		return nil
	}
	l.wrote(ended)
	p.Observed = ended
	if orphaned {
		return nil // The status still describes the objects that were let go.
	}
	return l.reportFinalized(ctx, p, done)
}

// policy says whether the object with a UID was deleted with the propagation policy Orphan, and when
// this process first saw the deletion.
type policy struct {
	uid      types.UID
	orphaned bool
	seen     time.Time
}

// isOrphaned reports whether an object was deleted with the propagation policy Orphan. This decides
// for every kind: its children are then let go, and nothing is cleaned up.
//
// The API server adds the finalizer of the policy. The garbage collector removes it again when it has
// removed the owner references of all dependents, without waiting for other finalizers. A pass may
// come later, so the finalizer counts if this process has ever seen it. After a restart, dependents
// without an owner reference are the evidence. They are read once, because Finalize changes them.
func (l *Loop[T, S]) isOrphaned(ctx context.Context, p *Pass[T]) (bool, error) {
	l.notePolicy(p.Observed)
	if known, ok := l.policies.Get(p.Key()); ok && known.uid == p.Observed.GetUID() {
		p.DeletionSeen = known.seen
		return known.orphaned, nil
	}
	decided := policy{uid: p.Observed.GetUID(), seen: p.Now}
	if l.kind.Orphaned != nil && !finalizer.Has(p.Observed, metav1.FinalizerDeleteDependents) {
		var err error
		if decided.orphaned, err = l.kind.Orphaned(ctx, p); err != nil {
			return false, fmt.Errorf("look whether the deletion keeps the dependents: %w", err)
		}
	}
	l.policies.Set(p.Key(), decided)
	p.DeletionSeen = decided.seen
	return decided.orphaned, nil
}

// notePolicy notes that a version of an object has the finalizer of the propagation policy Orphan.
func (l *Loop[T, S]) notePolicy(object T) {
	if object.GetDeletionTimestamp() == nil || !finalizer.Has(object, metav1.FinalizerOrphanDependents) {
		return
	}
	noted := policy{uid: object.GetUID(), orphaned: true, seen: l.clock.Now()}
	if known, ok := l.policies.Get(cache.MetaObjectToName(object)); ok && known.uid == noted.uid {
		noted.seen = known.seen
	}
	l.policies.Set(cache.MetaObjectToName(object), noted)
}

// end calls LetGo for an orphaned object, and Finalize for another one.
func (l *Loop[T, S]) end(ctx context.Context, p *Pass[T], orphaned bool) (event.Event, error) {
	switch {
	case !orphaned:
		return l.kind.Finalize(ctx, p)
	case l.kind.LetGo != nil:
		return l.kind.LetGo(ctx, p)
	default:
		return event.Normal(apimeta.ReasonOrphaned, "Delete", "Kept all objects, because the propagation policy of the deletion is Orphan"), nil
	}
}

// finalizerHandler notes objects with the finalizer of the propagation policy Orphan. It also keeps an
// object that the watch reports as deleted despite its finalizer, for the pass that its deletion
// starts.
//
// The API server reads an object before it deletes it, and a finalizer that is added in between
// does not hold the object, see https://github.com/kubernetes/kubernetes/issues/77988. Admission
// webhooks for deletions are called in between, too. Such an object is gone without a
// deletionTimestamp. So is an object that has left the selector of the watch, which still exists.
// An object whose last version the watch has missed is not kept: its finalizer may have been
// removed.
type finalizerHandler[T Object[T], S any] struct {
	cache.TypedResourceEventHandler[T]
	loop *Loop[T, S]
}

// OnAdd implements cache.TypedResourceEventHandler.
func (h finalizerHandler[T, S]) OnAdd(object T, isInInitialList bool) {
	h.loop.notePolicy(object)
	h.TypedResourceEventHandler.OnAdd(object, isInInitialList)
}

// OnUpdate implements cache.TypedResourceEventHandler.
func (h finalizerHandler[T, S]) OnUpdate(before, after T) {
	h.loop.notePolicy(after)
	h.TypedResourceEventHandler.OnUpdate(before, after)
}

// OnDelete implements cache.TypedResourceEventHandler.
func (h finalizerHandler[T, S]) OnDelete(gone cache.DeletedObject[T]) {
	if last := gone.OptionalObj; gone.FinalStateUnknown == nil && last.GetDeletionTimestamp() == nil && h.loop.finalizes(last) {
		deleted := last.DeepCopy()
		deleted.SetDeletionTimestamp(new(metav1.NewTime(h.loop.clock.Now())))
		h.loop.unfinalized.Set(cache.MetaObjectToName(last), deleted)
	}
	h.TypedResourceEventHandler.OnDelete(gone)
}

// reconcileGone makes a pass over an object that the cache lacks. If the object was deleted despite
// its finalizer, it calls Finalize or LetGo. Only a process that the API server has shown the object does
// so, because another process may have finalized the object.
func (l *Loop[T, S]) reconcileGone(ctx context.Context, key cache.ObjectName, why controller.Reason) (controller.Result, error) {
	controller.LogGeneration(ctx, 0)
	deleted, ok := l.unfinalized.Get(key)
	if !ok && !why.Has(controller.Deleted) {
		return controller.Result{}, nil // The handler of the deletion has not run yet.
	}
	if ok && l.isConfirmed(deleted) {
		p := l.newPass(deleted, why)
		if err := l.finalizeGone(ctx, p); errors.Is(err, ErrDeletionWaits) {
			return controller.Result{RequeueAfter: p.Next}, nil
		} else if err != nil {
			return controller.Result{}, err
		}
	}
	l.forget(key)
	return controller.Result{}, nil
}

// finalizeGone calls Finalize or LetGo unless an object of the name exists: a successor, or the object
// itself, without the label of the selector.
func (l *Loop[T, S]) finalizeGone(ctx context.Context, p *Pass[T]) error {
	if _, err := l.live(ctx, p.Observed); !apierrors.IsNotFound(err) {
		return err
	}
	ctx = controller.LogGeneration(ctx, p.Observed.GetGeneration())
	orphaned, err := l.isOrphaned(ctx, p)
	if err != nil {
		return err
	}
	done, err := l.end(ctx, p, orphaned)
	if err != nil {
		return err
	}
	event.Emit(ctx, l.recorder, p.Object, done)
	return nil
}

// othersGrace is the delay before the status reports that a deletion waits for finalizers of other
// clients. Most deletions end within this delay, which saves a status write.
const othersGrace = 2 * time.Second

// awaitOthers reports in the status that only finalizers of other clients keep an object, for
// example in a foreground deletion. Otherwise, the object would stay Ready.
func (l *Loop[T, S]) awaitOthers(ctx context.Context, p *Pass[T]) (controller.Result, error) {
	others := OthersFinalizers(p.Observed)
	if others == "" || finalizer.Has(p.Observed, l.finalizers()...) || !meta.IsStatusConditionTrue(*p.conditions(p.Observed), apimeta.ConditionReady) {
		return controller.Result{}, nil // The object is gone, or is not Ready.
	}
	if wait := p.Observed.GetDeletionTimestamp().Add(othersGrace).Sub(p.Now); wait > 0 {
		return controller.Result{RequeueAfter: min(wait, othersGrace)}, nil
	}
	p.Conditions().MarkReconciling(apimeta.ReasonDeleting, "The deletion waits for finalizers of others: "+others)
	if err := p.Commit(ctx); !apierrors.IsNotFound(err) {
		return controller.Result{}, err
	}
	return controller.Result{}, nil
}

// blockDeletion reports an error of a request about the object itself.
func (l *Loop[T, S]) blockDeletion(ctx context.Context, p *Pass[T], err error) error {
	err = l.redacted(ctx, p.Object, err)
	p.failed = controller.IsFailure(ctx, err)
	p.Conditions().MarkReconciling(apimeta.ReasonFinalizerFailed, "Deletion waits: "+err.Error())
	return join(err, p.Commit(ctx))
}

// finalizes reports whether the deletion of an object calls Finalize.
func (l *Loop[T, S]) finalizes(object T) bool {
	return l.kind.Finalizer != "" && finalizer.Has(object, l.finalizers()...)
}

// finalizers returns the finalizers that count as the kind's own.
func (l *Loop[T, S]) finalizers() []string {
	return append([]string{l.kind.Finalizer}, l.kind.FormerFinalizers...)
}

func (l *Loop[T, S]) reportFinalized(ctx context.Context, p *Pass[T], done event.Event) error {
	if l.kind.Finalized == nil {
		return nil
	}
	l.kind.Finalized(p, done)
	return p.Commit(ctx)
}

func (l *Loop[T, S]) readyReason(object T) string {
	ready := meta.FindStatusCondition(*l.kind.Conditions(l.kind.Status(object)), apimeta.ConditionReady)
	if ready == nil {
		return ""
	}
	return ready.Reason
}

// OthersFinalizers returns the finalizers of an object except own, separated by commas.
func OthersFinalizers(object metav1.Object, own ...string) string {
	others := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(name string) bool { return slices.Contains(own, name) })
	return strings.Join(others, ", ")
}
