// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/status"
)

// pass is one look at one DemoAppCluster: what was found, and the copy that the
// steps write their findings into.
type pass struct {
	observed *v1alpha1.DemoAppCluster
	cluster  *v1alpha1.DemoAppCluster
	now      time.Time

	// nodes are those that are to have an app.
	nodes []string
	slots []slot
	extra []*v1alpha1.DemoApp
}

func (p *pass) conditions() status.Editor {
	return status.For(&p.cluster.Status.Conditions, p.cluster.Generation, p.now)
}

// Reconcile brings the apps of one DemoAppCluster to what its spec says.
func (c *Controller) Reconcile(ctx context.Context, key cache.ObjectName, _ controller.Reason) (controller.Result, error) {
	cached, _ := c.cached.Get(key)
	cluster := c.latest.Newest(key, cached)
	if cluster == nil {
		c.forget(key)
		return controller.Result{}, nil
	}
	if cluster.DeletionTimestamp != nil {
		return controller.Result{}, nil // The garbage collector sees to the apps.
	}
	result := controller.Result{RequeueAfter: controller.Jitter(c.resync)}
	p := &pass{observed: cluster, cluster: cluster.DeepCopy(), now: c.clock.Now()}
	stepErr := c.steps(ctx, p)
	if wait := c.pace.wait(p); wait > 0 {
		c.queue.EnqueueAfter(key, wait, controller.HealthChange)
		return result, stepErr
	}
	return result, errors.Join(stepErr, c.commit(ctx, p))
}

// steps gather, decide, act and report, in this order.
func (c *Controller) steps(ctx context.Context, p *pass) error {
	selector, err := selectorOf(p.cluster.Spec.NodeSelector)
	if err != nil {
		p.conditions().MarkStalled(v1alpha1.ReasonValidationFailed, err.Error())
		p.cluster.Status.ObservedGeneration = p.cluster.Generation
		return controller.Terminal(err)
	}
	c.nodes.need()
	if known, failure := c.nodes.known(); !known {
		reportUnknownNodes(p, failure)
		return nil
	}
	p.nodes = c.nodes.matching(selector)
	p.slots, p.extra = c.children.slots(p.cluster, p.nodes)
	if err := c.act(ctx, p, decide(p.slots, p.extra, maxUnavailable(p.cluster.Spec.UpdateStrategy, len(p.nodes)))); err != nil {
		return reportFailure(p, err)
	}
	summarize(p)
	return nil
}

// act carries a plan out, and looks again at what there is then.
func (c *Controller) act(ctx context.Context, p *pass, todo plan) error {
	if todo.isEmpty() {
		return nil
	}
	client := c.apps.DemoApps(p.cluster.Namespace)
	keeper := c.children.keeper
	removeErr := child.InBatches(ctx, len(todo.remove), parallelWrites, func(ctx context.Context, i int) error {
		if keeper.IsLeaving(todo.remove[i]) {
			return nil
		}
		return keeper.Delete(ctx, client, todo.remove[i])
	})
	createErr := child.InBatches(ctx, len(todo.create), parallelWrites, func(ctx context.Context, i int) error {
		err := keeper.Create(ctx, client, todo.create[i].desired)
		if errors.Is(err, child.ErrExists) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil // The cache tells whose it is, or that all is over, as soon as it knows.
		}
		return err
	})
	updateErr := child.InBatches(ctx, len(todo.update), parallelWrites, func(ctx context.Context, i int) error {
		updated, err := updatedApp(todo.update[i].app, todo.update[i].desired)
		if err != nil {
			return err
		}
		return keeper.Update(ctx, client, updated)
	})
	p.slots, p.extra = c.children.slots(p.cluster, p.nodes)
	if err := errors.Join(removeErr, createErr, updateErr); err != nil {
		return fmt.Errorf("DemoApps of %s: %w", p.cluster.Name, err)
	}
	return nil
}

// commit writes the status when the pass changed it, and emits what the change
// means as an event.
func (c *Controller) commit(ctx context.Context, p *pass) error {
	written, wrote, err := status.Commit(ctx, p.observed.Status, p.cluster.Status, func(ctx context.Context) (*v1alpha1.DemoAppCluster, error) {
		return c.clusters.DemoAppClusters(p.cluster.Namespace).ApplyStatus(ctx, statusConfiguration(p.cluster), applyOptions)
	})
	if err != nil || !wrote {
		return err
	}
	c.latest.Wrote(written)
	c.pace.wrote(p)
	if e, ok := transition(p.observed.Status, p.cluster.Status); ok {
		c.recorder.Eventf(p.cluster, nil, e.eventType, e.reason, "Reconcile", "%s", e.note)
	}
	return nil
}

// forget lets go of everything that is kept for a DemoAppCluster that is gone.
func (c *Controller) forget(key cache.ObjectName) {
	c.latest.Forget(key)
	c.children.keeper.Forget(key)
	c.pace.forget(key)
}
