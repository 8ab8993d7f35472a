// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/webapp/images"
	exampleclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/example/v1"
)

// Name is the controller's name in logs and metrics.
const Name = "webapp"

// busyRetry is the time until a cleanup hook is called that was not, because too many calls run.
const busyRetry = 5 * time.Second

// Kind is the kind of the owners of the children.
var Kind = examplev1.SchemeGroupVersion.WithKind("WebApp")

type (
	pass = kind.Pass[*examplev1.WebApp]
	loop = kind.Loop[*examplev1.WebApp, examplev1.WebAppStatus]
)

// Cleanup is a cleanup hook, see package cleanup.
type Cleanup interface {
	Call(ctx context.Context, object cache.ObjectName) (answer string, err error)
}

// Options configure the controller. The zero value blocks no image and has no cleanup hook.
type Options struct {
	// Cleanup is the cleanup hook of WebApps that are deleted. Optional.
	Cleanup Cleanup
	// Blocked are the images that are not rolled out.
	Blocked images.Blocklist
}

// Controller reconciles WebApps.
type Controller struct {
	*loop

	options  Options
	children *child.Set
	// namespaces shows which namespaces enforce the restricted Pod Security profile.
	namespaces *controller.Namespaces
	// logged are the blocked images that the log has named, by WebApp.
	logged controller.Memory[string]
}

// New wires the controller of WebApps and of their children. It starts nothing.
func New(client exampleclient.WebAppsGetter, children *child.Set, options Options, deps kind.Deps) (*Controller, error) {
	c := &Controller{options: options, children: children, namespaces: deps.Namespaces}
	for _, informer := range deps.Informers {
		if err := informer.AddIndexers(cache.Indexers{imageIndex: byImage}); err != nil {
			return nil, fmt.Errorf("index WebApps by image: %w", err)
		}
	}
	definition := kind.Definition[*examplev1.WebApp, examplev1.WebAppStatus]{
		Name: Name, GroupVersionKind: Kind, FieldManager: child.FieldManager,
		Client:     func(namespace string) controller.Patcher[*examplev1.WebApp] { return client.WebApps(namespace) },
		Status:     func(w *examplev1.WebApp) *examplev1.WebAppStatus { return &w.Status },
		Conditions: func(s *examplev1.WebAppStatus) *[]metav1.Condition { return &s.Conditions },
		Steps:      c.reconcile,
		Hold:       func(was, is examplev1.WebAppStatus) time.Duration { return child.Hold(was.Conditions, is.Conditions) },
		Events:     transitions,
		Gates:      []kind.Gate{kind.HeldFor("image", examplev1.ReasonImageBlocked)},
		Forget:     c.logged.Forget,
	}
	if options.Cleanup == nil {
		definition.FormerFinalizers = []string{examplev1.Finalizer}
	} else {
		definition.Finalizer, definition.Finalize = examplev1.Finalizer, c.finalize
		definition.LetGo, definition.Orphaned = child.LettingGo(children,
			func(w *examplev1.WebApp) childv1alpha1.ChildrenStatus { return w.Status.Children },
			"Kept the children, and did not call the cleanup hook")
	}
	var err error
	if c.loop, err = kind.New(definition, deps); err != nil {
		return nil, err
	}
	return c, children.Watch(c.loop)
}

// reconcile makes the children as desired, without an apply that would roll out a blocked image.
func (c *Controller) reconcile(ctx context.Context, p *pass) error {
	enforced, known := c.namespaces.EnforcesRestricted(p.Object.Namespace)
	if !known {
		return nil // The Namespace starts another pass when it appears.
	}
	children, blockedBy, image := Desired(p.Object, enforced), c.blockedBy(ctx, p), p.Object.Spec.Image
	if blockedBy != "" {
		children[0] = child.RetainIf(children[0], func(got *child.Observed) bool { return got.Image(container) != image })
	}
	state, err := c.children.Ensure(ctx, p.Object, &p.Object.Status.Children, p.Now, children...)
	summarize(p, state, blockedBy, err)
	return err
}

// finalize calls the cleanup hook. The status says why the deletion waits. A failed call is retried
// with the backoff of the queue. While too many calls run, nothing failed.
func (c *Controller) finalize(ctx context.Context, p *pass) (event.Event, error) {
	answer, err := c.options.Cleanup.Call(ctx, p.Key())
	if errors.Is(err, controller.ErrTooManyWaiting) {
		p.RequeueAfter(controller.Jitter(busyRetry))
		return event.Event{}, kind.ErrDeletionWaits
	}
	if err != nil {
		p.Object.Status.ObservedGeneration = p.Object.Generation
		p.Conditions().MarkReconciling(examplev1.ReasonCleanupPending,
			"Deletion waits: "+err.Error()+"; the cleanup hook (--webapp-cleanup-url) is called again")
		return event.Event{}, err
	}
	return event.Normal(examplev1.ReasonCleanedUp, "Delete", answer), nil
}
