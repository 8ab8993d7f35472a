// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/event"
	"github.com/example/demoapp-controller/pkg/controller/finalizer"
	"github.com/example/demoapp-controller/pkg/controller/status"
)

// Object is a pointer to an API object.
type Object[T any] interface {
	controller.Object
	runtime.Object
	DeepCopy() T
}

// Kind is what one kind states of itself. T is a pointer to the object's type, and S the
// type of its status. Fields without a note are required.
type Kind[T Object[T], S any] struct {
	// Name is the controller's name in logs and metrics.
	Name             string
	GroupVersionKind schema.GroupVersionKind
	// FieldManager owns the status. Fields that others write there are removed.
	FieldManager string
	// Client returns the client of a namespace.
	Client func(namespace string) finalizer.Patcher[T]
	// Status returns the status within an object, and Conditions those within a status.
	Status     func(T) *S
	Conditions func(*S) *[]metav1.Condition
	// Steps bring the world to what the object asks for, and report in p.Object's status
	// alone. The status is written when they return, also with an error, unless the error
	// is that of an informer that is being filled ([controller.IsPending]).
	Steps func(ctx context.Context, p *Pass[T]) error

	// Annotations are those whose change asks for a pass. Optional.
	Annotations []string
	// Finalizer is added before Steps run for the first time. Empty means that a deletion
	// needs nothing.
	Finalizer string
	// Finalize undoes, when the object is being deleted, what Steps did. Each call may be a
	// repetition. On an error the finalizer stays, and Finalize has reported why in
	// p.Object's status. It returns the event that the end of the deletion is worth.
	// Required with Finalizer.
	Finalize func(ctx context.Context, p *Pass[T]) (event.Event, error)
	// Finalized reports in p.Object's status that Finalize is done. It is called where
	// finalizers of others keep the object. Optional.
	Finalized func(p *Pass[T])
	// Hold returns for how long the status next may be held back, counted from the first
	// status that was; 0 writes it now. Optional: nothing is held back.
	Hold func(written, next S) time.Duration
	// Interval is the shortest time between two writes of the status of an object, also on
	// the error path; 0 for none.
	Interval time.Duration
	// Events returns the events that the difference between two versions of an object is
	// worth. Optional: [Transition] of the condition Ready.
	Events func(before, after T) []event.Event
	// Redact returns an error of the API server without secrets of the object. It may read
	// them. Optional.
	Redact func(ctx context.Context, object T, err error) error
	// Forget drops what is kept of an object that is gone. Optional.
	Forget func(key cache.ObjectName)
}

// Pass is one pass over one object.
type Pass[T Object[T]] struct {
	// Observed is the object as it was read, or as this pass wrote it last. Read-only.
	Observed T
	// Object is a copy of it, whose status the steps change.
	Object T
	// Reason is why the object was queued.
	Reason controller.Reason
	// Now is when the pass began.
	Now time.Time
	// Next is when the object is looked at again although nothing happened.
	Next time.Duration

	conditions  func(T) *[]metav1.Condition
	commit      func(context.Context) error
	afterCommit []func(bool)
}

// Key is the object's namespace and name.
func (p *Pass[T]) Key() cache.ObjectName {
	return cache.NewObjectName(p.Object.GetNamespace(), p.Object.GetName())
}

// Conditions edits the conditions of the object's status.
func (p *Pass[T]) Conditions() status.Editor {
	return status.For(p.conditions(p.Object), p.Object.GetGeneration(), p.Now)
}

// LookAgain asks for the next pass in d at the latest.
func (p *Pass[T]) LookAgain(d time.Duration) { p.Next = min(p.Next, d) }

// Commit writes the status now, for what has to be visible before the pass goes on.
func (p *Pass[T]) Commit(ctx context.Context) error { return p.commit(ctx) }

// AfterCommit has f called at the end of the pass. Committed says that the status is as the
// pass left it; it is not where the status was held back or could not be written.
func (p *Pass[T]) AfterCommit(f func(committed bool)) { p.afterCommit = append(p.afterCommit, f) }
