// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	democlient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/redact"
)

// Name is the controller's name in logs and metrics.
const Name = "demoappcluster"

// fieldManager is the field manager of this controller. It differs from the field manager of the
// controller of DemoApps, so that their writes can be distinguished.
const fieldManager = "demoappcluster-controller"

const (
	// workers is the number of DemoAppClusters reconciled in parallel.
	workers = 2
	// parallelWrites is the number of DemoApps of one DemoAppCluster written in parallel.
	parallelWrites = 10
)

// byOwner is the index of DemoApps by the UID of the DemoAppCluster that controls
// them.
const byOwner = "demoappcluster.owner"

// Deps are the dependencies of the controller.
type Deps struct {
	// Client writes DemoApps and the status of DemoAppClusters.
	Client interface {
		democlient.DemoAppsGetter
		democlient.DemoAppClustersGetter
	}
	// ClusterInformers and AppInformers read DemoAppClusters and DemoApps, keyed by the
	// watched namespace.
	ClusterInformers, AppInformers map[string]cache.SharedIndexInformer
	// Nodes watches the metadata of Nodes, reduced by [KeepNode]. The watch starts with
	// the first DemoAppCluster.
	Nodes NodeWatch
	// LiveNode returns the metadata of a Node from the API server, not from a cache; nil for an
	// absent Node.
	LiveNode func(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error)

	Recorder events.EventRecorder
	Metrics  *controller.Metrics
	Clock    clock.WithTicker
	// ResyncPeriod is the time between two reconciles of a DemoAppCluster without events,
	// plus or minus 10%.
	ResyncPeriod time.Duration
	// Namespaces shows which namespaces are paused; nil if the operator may not watch them.
	Namespaces *controller.Namespaces
	// Refuse returns why the objects of a namespace are not reconciled; "" if they are.
	Refuse func(namespace string) (why string)
	// Shards are the namespaces whose objects are reconciled; nil for all.
	Shards *controller.Shards
}

// Controller reconciles DemoAppClusters.
type Controller struct {
	*kind.Loop[*v1alpha1.DemoAppCluster, v1alpha1.DemoAppClusterStatus]

	apps     democlient.DemoAppsGetter
	children children
	nodes    NodeWatch
	liveNode func(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error)
}

// New connects the controller to its informers. It starts nothing.
func New(deps Deps) (*Controller, error) {
	c := &Controller{apps: deps.Client, children: newChildren(deps.AppInformers), nodes: deps.Nodes, liveNode: deps.LiveNode}
	var err error
	c.Loop, err = kind.New(kind.Definition[*v1alpha1.DemoAppCluster, v1alpha1.DemoAppClusterStatus]{
		Name: Name, GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind(clusterKind.Kind), FieldManager: fieldManager,
		Client: func(namespace string) controller.Patcher[*v1alpha1.DemoAppCluster] {
			return deps.Client.DemoAppClusters(namespace)
		},
		Status:     func(cluster *v1alpha1.DemoAppCluster) *v1alpha1.DemoAppClusterStatus { return &cluster.Status },
		Conditions: func(s *v1alpha1.DemoAppClusterStatus) *[]metav1.Condition { return &s.Conditions },
		Steps:      c.steps,
		Interval:   statusInterval,
		Events:     transitions,
		Redact: func(_ context.Context, cluster *v1alpha1.DemoAppCluster, err error) error {
			return redact.Error([]string{cluster.Spec.Template.Spec.APIKey}, err)
		},
	}, kind.Deps{
		Informers: deps.ClusterInformers, Recorder: deps.Recorder, Metrics: deps.Metrics, Clock: deps.Clock,
		ResyncPeriod: deps.ResyncPeriod, Workers: workers, Namespaces: deps.Namespaces, Refuse: deps.Refuse, Shards: deps.Shards,
	})
	if err != nil {
		return nil, err
	}
	for namespace, informer := range deps.AppInformers {
		if err := c.watchApps(namespace, informer); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
	}
	// Nodes are watched only when a DemoAppCluster exists, so other installations need no
	// permission for them. Run therefore does not wait for their cache.
	if _, err = controller.AddHandler("nodes", deps.Nodes.Informer(), controller.MapHandler(c.Queue(), c.clustersOn, nodeChanged)); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return c, nil
}

func (c *Controller) watchApps(namespace string, informer cache.SharedIndexInformer) error {
	if err := informer.AddIndexers(cache.Indexers{byOwner: ownerIndex}); err != nil {
		return fmt.Errorf("index DemoApps: %w", err)
	}
	owned, err1 := controller.AddHandler("demoapps of demoappclusters", informer,
		controller.OwnedHandler(c.Queue(), clusterKind, c.uidOf, appChanged))
	others, err2 := controller.AddHandler("demoapps beside demoappclusters", informer,
		controller.MapHandler(c.Queue(), c.clustersBlockedBy, ownerChanged))
	_, err3 := controller.AddHandler("demoapps of demoappclusters", informer,
		overlay.Handler[*v1alpha1.DemoApp]{View: c.children.views[namespace]})
	c.Await(owned, others)
	return errors.Join(err1, err2, err3)
}

func (c *Controller) uidOf(key cache.ObjectName) (types.UID, bool) {
	cluster, ok := c.Cached().Get(key)
	if !ok {
		return "", false
	}
	return cluster.UID, true
}

func (c *Controller) all() []*v1alpha1.DemoAppCluster {
	var all []*v1alpha1.DemoAppCluster
	for _, indexer := range c.Cached() {
		for _, object := range indexer.List() {
			if cluster, ok := object.(*v1alpha1.DemoAppCluster); ok {
				all = append(all, cluster)
			}
		}
	}
	return all
}

// clustersOn returns the DemoAppClusters that select a node.
func (c *Controller) clustersOn(node *metav1.PartialObjectMetadata) []cache.ObjectName {
	var keys []cache.ObjectName
	for _, cluster := range c.all() {
		if selector, err := selectorOf(cluster.Spec.NodeSelector); err == nil && matches(node, selector) {
			keys = append(keys, keyOf(cluster))
		}
	}
	return keys
}

// clustersBlockedBy returns the DemoAppClusters that an app of another owner may block:
// its name starts like the names of their apps. They are enqueued when the app is created or
// deleted.
func (c *Controller) clustersBlockedBy(app *v1alpha1.DemoApp) []cache.ObjectName {
	var keys []cache.ObjectName
	for _, cluster := range c.all() {
		if cluster.Namespace == app.Namespace && strings.HasPrefix(app.Name, cluster.Name+"-") && !metav1.IsControlledBy(app, cluster) {
			keys = append(keys, keyOf(cluster))
		}
	}
	return keys
}

// ownerChanged returns the reason to enqueue the DemoAppClusters that may wait for the
// name of an app.
func ownerChanged(before, after *v1alpha1.DemoApp) controller.Reason {
	if before == nil || after == nil || ownerUID(before) != ownerUID(after) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
		return controller.DependencyReady
	}
	return 0
}

// appChanged returns the reason to enqueue the owner of a changed app. It ignores changes
// that the owner does not use.
func appChanged(before, after *v1alpha1.DemoApp) controller.Reason {
	if before == nil || after == nil || before.Generation != after.Generation ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!child.HasMetadata(before, after) || !child.HasMetadata(after, before) ||
		isReady(before) != isReady(after) || problemOf(before) != problemOf(after) ||
		isServing(before) != isServing(after) || hasArrived(before) != hasArrived(after) {
		return controller.HealthChange
	}
	return 0
}

func keyOf(cluster *v1alpha1.DemoAppCluster) cache.ObjectName {
	return cache.NewObjectName(cluster.Namespace, cluster.Name)
}

// isReady reports whether an app is ready at its newest generation.
func isReady(app *v1alpha1.DemoApp) bool {
	return isTrue(app, apimeta.ConditionReady)
}

// isTrue reports whether a condition is True at the newest generation.
func isTrue(app *v1alpha1.DemoApp, conditionType string) bool {
	condition := meta.FindStatusCondition(app.Status.Conditions, conditionType)
	return condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == app.Generation
}
