// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
)

// Object is a pointer to an API object.
type Object[T any] interface {
	controller.Object
	runtime.Object
	DeepCopy() T
}

// Definition describes one kind. T is a pointer to the object's type, and S is the type of its
// status. Fields are required unless their comment says otherwise.
type Definition[T Object[T], S any] struct {
	// Name is the controller's name in logs and metrics.
	Name             string
	GroupVersionKind schema.GroupVersionKind
	// FieldManager owns the status. Status fields of other field managers are removed.
	FieldManager string
	// Client returns the client for a namespace.
	Client func(namespace string) controller.Patcher[T]
	// Status returns the status of an object.
	Status func(T) *S
	// Conditions returns the conditions of a status.
	Conditions func(*S) *[]metav1.Condition
	// Steps move the observed state to the desired state. They change nothing of p.Object
	// except its status. The status is written after Steps, also after an error. It is not
	// written if a cache has to catch up ([controller.IsPending]). If the error of the API
	// server says that the namespace is being deleted, nothing failed: no steps run for
	// objects of the namespace for a while, and no status is written.
	Steps func(ctx context.Context, p *Pass[T]) error

	// Annotations are further annotations whose change starts a pass, in addition to those that
	// pause an object of any kind or request a pass over it. Optional.
	Annotations []string
	// Suspends says that Steps change nothing while Pass.Pause is set, and report it. By
	// default, no step runs then. Optional.
	Suspends bool
	// Finalizer is added before the first call of Steps. Optional: without a finalizer, a
	// deletion runs no step.
	Finalizer string
	// FormerFinalizers are finalizers of earlier operators of the kind, or of this one with
	// other options. They are replaced by Finalizer, and count as Finalizer in a deletion.
	// Without Finalizer they are removed, also in a deletion, and Finalize is not called.
	// Optional.
	FormerFinalizers []string
	// Finalize reverts the effects of Steps when the object is being deleted. The API server
	// has confirmed that the object exists and is being deleted, or that it is gone although
	// it had the finalizer. The status of an object that is gone is not written. Finalize
	// must be idempotent. On an error the finalizer stays, and Finalize must report the error
	// in p.Object's status. The error [ErrDeletionWaits] says that nothing failed, and that
	// an event or p.RequeueAfter starts the next pass. Finalize returns the event for the end
	// of the deletion. Required with Finalizer. It is not called for an object that is deleted with
	// the propagation policy Orphan.
	Finalize func(ctx context.Context, p *Pass[T]) (event.Event, error)
	// LetGo replaces Finalize if the object is deleted with the propagation policy Orphan. It deletes
	// nothing and calls nothing outside the cluster, so that an object that is created again continues
	// with the children. The rules of Finalize about the object, errors and the event hold. The error
	// ErrDeletionWaits is not allowed. Optional: by default, nothing is changed, and the event says
	// so.
	LetGo func(ctx context.Context, p *Pass[T]) (event.Event, error)
	// Orphaned reports whether the children have lost their owner references, as after a deletion with
	// the propagation policy Orphan. See [Loop.isOrphaned]. Optional: by default, it is false.
	Orphaned func(ctx context.Context, p *Pass[T]) (bool, error)
	// Finalized reports in p.Object's status that Finalize is done, with the event that Finalize
	// returned. It is called if other finalizers keep the object, and not after LetGo. Optional.
	Finalized func(p *Pass[T], done event.Event)
	// Hold returns the time for which the status next may be held, from the first held
	// status on; 0 writes the status now. Optional: by default, no status is held.
	Hold func(written, next S) time.Duration
	// Interval is the shortest time between two writes of the status of an object, also
	// after an error; 0 for none.
	Interval time.Duration
	// Events returns the events for the change between two versions of an object. Optional:
	// the default is [event.Transition] of the condition Ready.
	Events func(before, after T) []event.Event
	// Redact removes the object's secrets from an error of the API server. It may read
	// them. Optional.
	Redact func(ctx context.Context, object T, err error) error
	// Gates are the gates that may hold an object, for metrics. Optional.
	Gates []Gate
	// Warnings are conditions that an owner should know although the object may be Ready, for events
	// and metrics. Optional.
	Warnings []Warning
	// Forget drops the state that the kind keeps for an object that is gone. Optional.
	Forget func(key cache.ObjectName)
}

// ErrDeletionWaits is returned by Definition.Finalize if the deletion has to wait, and nothing
// failed. The status says why the deletion waits.
var ErrDeletionWaits = errors.New("the deletion waits")

// Pass is one pass over one object.
type Pass[T Object[T]] struct {
	// Observed is the object at the start of the pass, or after its last write. Read-only.
	Observed T
	// Object is a copy of Observed. The steps change its status.
	Object T
	// Reason is the set of reasons for the pass.
	Reason controller.Reason
	// Now is the start time of the pass.
	Now time.Time
	// Next is the delay until the next periodic pass.
	Next time.Duration
	// Pause is the cause of the object's pause. It is zero if the object is not paused.
	Pause Pause
	// DeletionSeen is when this process first saw the deletion. The deletionTimestamp has the clock of the
	// API server, so it says nothing about how long ago that was. It is set for Finalize and LetGo.
	DeletionSeen time.Time

	// failed says that the pass returns an error that the worker logs as an error.
	failed      bool
	conditions  func(T) *[]metav1.Condition
	loop        passLoop[T]
	afterCommit []func(StatusEnd)
}

// passLoop is the loop of a pass, without the type of the status.
type passLoop[T Object[T]] interface {
	commit(ctx context.Context, p *Pass[T]) error
	Confirm(ctx context.Context, object metav1.Object) error
	ConfirmOnce(ctx context.Context, object metav1.Object) error
}

// Key returns the object's namespace and name.
func (p *Pass[T]) Key() cache.ObjectName {
	return cache.NewObjectName(p.Object.GetNamespace(), p.Object.GetName())
}

// Conditions returns an editor of the conditions of p.Object.
func (p *Pass[T]) Conditions() status.Editor {
	return status.For(p.conditions(p.Object), p.Object.GetGeneration(), p.Now)
}

// RequeueAfter requests the next pass after d at the latest.
func (p *Pass[T]) RequeueAfter(d time.Duration) { p.Next = min(p.Next, d) }

// Commit writes the status now. Call it if the status must be visible before the pass
// continues.
func (p *Pass[T]) Commit(ctx context.Context) error { return p.loop.commit(ctx, p) }

// Confirm is [Loop.ConfirmOnce] for the object of the pass. Steps call it before they change or
// delete something that exists. They return its error: the next pass has the newest version.
// Before Finalize, the object is confirmed already.
func (p *Pass[T]) Confirm(ctx context.Context) error { return p.loop.ConfirmOnce(ctx, p.Observed) }

// ConfirmNow is [Loop.Confirm] for the object of the pass. Steps call it before they create missing
// objects again: the garbage collector may have deleted it after the object, whose deletion the
// cache shows later.
func (p *Pass[T]) ConfirmNow(ctx context.Context) error { return p.loop.Confirm(ctx, p.Observed) }

// StatusEnd says how the write of a pass's status ended.
type StatusEnd int

const (
	// StatusKept means that the status is in memory only, or that the pass left it unchanged. The next
	// pass begins with it.
	StatusKept StatusEnd = iota
	// StatusCommitted means that the API server has the status.
	StatusCommitted
	// StatusLost means that the write failed. The next pass begins with the last written status.
	StatusLost
)

// AfterCommit calls f at the end of the pass.
func (p *Pass[T]) AfterCommit(f func(end StatusEnd)) { p.afterCommit = append(p.afterCommit, f) }
