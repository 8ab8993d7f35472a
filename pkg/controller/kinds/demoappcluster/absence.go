// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// defaultGracePeriod is the default of spec.removalGracePeriod.
const defaultGracePeriod = 5 * time.Minute

// extra is an app without a selected node.
type extra struct {
	app *v1alpha1.DemoApp
	// leaving says that the app is being deleted.
	leaving bool
	// unwanted says that the owner's change of nodeSelector excluded the node, which did not
	// change itself. Otherwise the node is gone, is being deleted, or has lost a label.
	unwanted bool
}

// removal says which apps without a node are deleted now. pending are the absences to record, with
// those that end now, because a deletion may fail.
type removal struct {
	now     []extra
	pending []v1alpha1.PendingRemoval
}

// decideRemovals decides which apps without a node go now. A change by the owner acts at once. An
// absence acts only after it has lasted for the grace period, because a node that restarts or whose
// label is set again must not lose its app. recorded are the absences of the last pass; they are in
// the status, so that the grace period does not begin again with another process.
func decideRemovals(apps []extra, recorded []v1alpha1.PendingRemoval, grace time.Duration, now time.Time) removal {
	began := make(map[string]time.Time, len(recorded))
	for _, pending := range recorded {
		began[pending.Name] = pending.Since.Time
	}
	// The status has whole seconds. Rounding up keeps the grace period from being shorter.
	latest := now.Add(time.Second - time.Nanosecond).Truncate(time.Second)
	var r removal
	room := v1alpha1.MaxPendingRemovals
	for _, e := range apps {
		if _, known := began[e.app.Name]; known {
			room--
		}
	}
	for _, e := range apps {
		since, known := began[e.app.Name]
		switch {
		case e.leaving:
			continue
		case e.unwanted || grace <= 0:
			r.now = append(r.now, e)
			continue
		case !known && room <= 0:
			continue
		case !known:
			room--
			since = latest
		case since.After(latest):
			since = latest // The clock of another replica was ahead.
		}
		until := since.Add(grace)
		if !now.Before(until) {
			r.now = append(r.now, e)
		}
		r.pending = append(r.pending, v1alpha1.PendingRemoval{Name: e.app.Name, Since: metav1.NewTime(since), Until: metav1.NewTime(until)})
	}
	return r
}

// gracePeriod returns the grace period of a DemoAppCluster.
func gracePeriod(cluster *v1alpha1.DemoAppCluster) time.Duration {
	if cluster.Spec.RemovalGracePeriod == nil {
		return defaultGracePeriod
	}
	return cluster.Spec.RemovalGracePeriod.Duration
}

// observe returns the observed state of a DemoAppCluster.
func (c *Controller) observe(cluster *v1alpha1.DemoAppCluster, selector labels.Selector) observation {
	nodes := c.nodes.Informer().GetStore()
	observed := c.children.observe(cluster, matchingNodes(nodes, selector))
	former := formerSelector(cluster)
	if len(observed.extra) == 0 || former == nil {
		return observed
	}
	unwanted := map[string]bool{}
	for _, node := range matchingNodes(nodes, former) {
		unwanted[appName(cluster.Name, node)] = true
	}
	for i := range observed.extra {
		observed.extra[i].unwanted = unwanted[observed.extra[i].app.Name]
	}
	return observed
}

// formerSelector returns the selector of the last pass; nil if it is not known, as after an upgrade
// of the operator.
func formerSelector(cluster *v1alpha1.DemoAppCluster) labels.Selector {
	if cluster.Status.NodeSelector == nil {
		return nil
	}
	former, err := labels.Parse(*cluster.Status.NodeSelector)
	if err != nil {
		return nil
	}
	return former
}

// confirmAbsence returns a [controller.StaleError] if the node of an app exists and matches, and only
// the cache does not show it yet. A watch may be late after an outage of the API server, in which
// grace periods ended.
func (c *Controller) confirmAbsence(ctx context.Context, cluster *v1alpha1.DemoAppCluster, app *v1alpha1.DemoApp) error {
	selector, err := selectorOf(cluster.Spec.NodeSelector)
	if err != nil {
		return err
	}
	name := app.Spec.NodeName
	if appName(cluster.Name, name) != app.Name {
		return nil // Another client changed spec.nodeName, so the node's name is not known.
	}
	node, err := c.liveNode(ctx, name)
	if err != nil {
		return fmt.Errorf("confirm that node %s is gone: %w", name, err)
	}
	if node != nil && matches(node, selector) {
		return &controller.StaleError{Object: cache.NewObjectName("", name)}
	}
	return nil
}

// recordRemovals sets the status of the apps without a node after a pass, and requests a pass for the
// end of the first grace period. The selector is recorded when each app that its change excluded is
// being deleted.
func recordRemovals(p *pass, apps []extra, pending []v1alpha1.PendingRemoval, selector labels.Selector) {
	stays := map[string]bool{}
	for _, e := range apps {
		stays[e.app.Name] = !e.leaving
	}
	p.Object.Status.PendingRemovals = slices.DeleteFunc(pending, func(r v1alpha1.PendingRemoval) bool { return !stays[r.Name] })
	for _, r := range p.Object.Status.PendingRemovals {
		if wait := r.Until.Sub(p.Now); wait > 0 {
			p.RequeueAfter(wait)
		}
	}
	if !slices.ContainsFunc(apps, func(e extra) bool { return e.unwanted && !e.leaving }) {
		text := selector.String()
		p.Object.Status.NodeSelector = &text
	}
}

// keptAndLeaving returns the apps of the status with the time of their removal, and how many apps
// are being deleted.
func keptAndLeaving(apps []extra, pending []v1alpha1.PendingRemoval) (kept []string, leaving int) {
	until := make(map[string]metav1.Time, len(pending))
	for _, r := range pending {
		until[r.Name] = r.Until
	}
	for _, e := range apps {
		at, listed := until[e.app.Name]
		switch {
		case listed:
			kept = append(kept, e.app.Name+" until "+at.UTC().Format(time.RFC3339))
		case e.leaving:
			leaving++
		default:
			kept = append(kept, e.app.Name)
		}
	}
	return kept, leaving
}
