// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// reservations are the hosts that apps are about to use. A reservation lasts from the
// gate that admits the change until the app's status records the host. No other app gets
// the host meanwhile, whatever the caches contain. The zero value is ready to use. A new
// process has no reservations.
type reservations struct {
	mu sync.Mutex
	// held are the reservations by host, as in hosts.Requested.
	held map[string]*reservation
}

type reservation struct {
	holder  cache.ObjectName
	refused sets.Set[cache.ObjectName]
}

// take reserves a claim for an app, unless another app has reserved it. It returns the
// holder.
func (r *reservations) take(key cache.ObjectName, claim string) (holder cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = map[string]*reservation{}
	}
	held, ok := r.held[claim]
	if !ok {
		held = &reservation{holder: key, refused: sets.New[cache.ObjectName]()}
		r.held[claim] = held
	}
	if held.holder != key {
		held.refused.Insert(key)
	}
	return held.holder
}

// release ends the reservations of an app, and returns the apps that were refused one.
func (r *reservations) release(key cache.ObjectName) []cache.ObjectName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var refused []cache.ObjectName
	for claim, held := range r.held {
		if held.holder == key {
			refused = append(refused, held.refused.UnsortedList()...)
			delete(r.held, claim)
		}
	}
	return refused
}

// releaseClaims ends the reservations of an app. Refused apps are enqueued, because the
// claim may be free.
func (c *Controller) releaseClaims(key cache.ObjectName) {
	for _, refused := range c.reservations.release(key) {
		c.Queue().Enqueue(refused, controller.SpecChange)
	}
}

// refusal returns why an app cannot have a claim; empty if it can. It stalls if a user
// must decide. A host that a new revision will use is reserved.
func (c *Controller) refusal(app *v1alpha1.DemoApp, in release.GateInput, claims claims) (message string, stalled bool) {
	message, stalled = c.obstacleOf(app, claims)
	rollsOut := in.Plan.RollsOut() && in.Plan.Next.Action != helm.ActionRollback && !in.Blocked
	if message != "" || !rollsOut || !claims.isExclusive() || claims.Held(app) == claims.Requested(app) {
		return message, stalled
	}
	if holder := c.reservations.take(in.Key, claims.Requested(app)); holder != in.Key {
		return fmt.Sprintf("%s is being assigned to DemoApp %q", claims.describe(app), holder.Name), false
	}
	return c.obstacleOf(app, claims) // Another app may have recorded it before the reservation.
}

// obstacleOf returns why an app cannot have a claim, as far as the other apps are known.
func (c *Controller) obstacleOf(app *v1alpha1.DemoApp, claims claims) (message string, stalled bool) {
	message, stalled = claims.obstacle(app, claims.Others(c, app, claims.Requested(app)))
	if message != "" && !stalled && claims.isExclusive() && c.isRing(app) {
		message += ", which waits for the host of this DemoApp: give one of them another host for a while"
		stalled = true
	}
	return message, stalled
}
