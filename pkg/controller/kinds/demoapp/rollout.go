// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/gates"
	"github.com/example/demoapp-controller/pkg/controller/release/gates/rollout"
)

// roll creates the lifecycle, with the rollout of the operator's chart.
func (c *Controller) roll(engine release.Engine, recorder events.EventRecorder, limits rollout.Limits) {
	c.rollout = gates.NewRollout(gates.RolloutConfig{
		Chart: c.chart, Plural: "DemoApps", Limits: limits, Observer: engine, Queue: c.Queue(), Objects: c.rolloutObjects,
	})
	c.lifecycle = release.New(c.releases, recorder, c.Queue().Drift(), c.rollout, gates.Suspend, gates.Window)
}

// Rollouts counts the apps that wait for the operator's chart, are being upgraded to it,
// or failed with it.
func (c *Controller) Rollouts() rollout.Counts { return c.rollout.Counts() }

// rolloutObjects returns the apps that may count for the rollout of a newer chart.
func (c *Controller) rolloutObjects() []gates.RolloutObject {
	var found []gates.RolloutObject
	for _, indexer := range c.Cached() {
		for _, item := range indexer.List() {
			if app, ok := item.(*v1alpha1.DemoApp); ok && app.DeletionTimestamp == nil && c.Queue().Shards().Holds(app.Namespace) {
				found = append(found, c.rolloutObject(app))
			}
		}
	}
	return found
}

func (c *Controller) rolloutObject(app *v1alpha1.DemoApp) gates.RolloutObject {
	return gates.RolloutObject{
		Key: cache.MetaObjectToName(app), Generation: app.Generation, Suspended: app.Spec.Suspend || c.PauseOf(app) != (kind.Pause{}), Status: app.Status.ReleaseStatus,
	}
}

// watchElsewhere follows the apps of the shards that other replicas hold.
func (c *Controller) watchElsewhere(informer cache.SharedIndexInformer) error {
	if c.Queue().Shards() == nil {
		return nil
	}
	_, err := controller.AddHandler("rollout elsewhere", informer, cache.TypedResourceEventHandlerFuncs[*v1alpha1.DemoApp]{
		AddFunc:    func(app *v1alpha1.DemoApp) { c.followElsewhere(app) },
		UpdateFunc: func(_, app *v1alpha1.DemoApp) { c.followElsewhere(app) },
		DeleteFunc: func(gone cache.DeletedObject[*v1alpha1.DemoApp]) {
			if key := gone.GetObjectName(); !c.Queue().Shards().Holds(key.Namespace) {
				c.rollout.Forget(key)
			}
		},
	})
	return err
}

// followElsewhere counts the failure of an app that another replica reconciles.
func (c *Controller) followElsewhere(app *v1alpha1.DemoApp) {
	object := c.rolloutObject(app)
	c.rollout.FollowElsewhere(object)
	if _, ok := c.Cached().Get(object.Key); !ok {
		c.rollout.Forget(object.Key) // Its deletion may have been handled before.
	}
}
