// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// nodes is the watch of Nodes, which begins when it is needed for the first time.
type nodes struct {
	informer cache.SharedIndexInformer
	needed   chan struct{}
	once     sync.Once
	// changed is called when the nodes are known, and each time that they cannot
	// be listed.
	changed func()

	mu      sync.Mutex
	failure error
}

func newNodes(informer cache.SharedIndexInformer, changed func()) (*nodes, error) {
	n := &nodes{informer: informer, needed: make(chan struct{}), changed: changed}
	if err := informer.SetTransform(nameAndLabels); err != nil {
		return nil, fmt.Errorf("watch Nodes: %w", err)
	}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		n.failed(err)
	})
	if err != nil {
		return nil, fmt.Errorf("watch Nodes: %w", err)
	}
	return n, nil
}

// nameAndLabels keeps of a node what matters here. A cluster has thousands, and
// each has much to say.
func nameAndLabels(object any) (any, error) {
	whole, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
		Labels: whole.Labels, DeletionTimestamp: whole.DeletionTimestamp,
	}}, nil
}

// run watches, from the time that somebody needs it, until ctx ends.
func (n *nodes) run(ctx context.Context) {
	select {
	case <-n.needed:
	case <-ctx.Done():
		return
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { n.informer.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), n.informer.HasSynced) {
		n.changed()
	}
}

// need makes the watch begin, unless it has.
func (n *nodes) need() { n.once.Do(func() { close(n.needed) }) }

// known reports whether all nodes are known and, while they are not, the failure
// that keeps them from being so, if there is one.
func (n *nodes) known() (bool, error) {
	if n.informer.HasSynced() {
		return true, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return false, n.failure
}

func (n *nodes) failed(err error) {
	if n.informer.HasSynced() {
		// The watch begins again; what is known stays as it is meanwhile.
		return
	}
	n.mu.Lock()
	n.failure = err
	n.mu.Unlock()
	n.changed()
}

// matching are the names of the nodes that match, sorted.
func (n *nodes) matching(selector labels.Selector) []string {
	var names []string
	for _, object := range n.informer.GetStore().List() {
		if node, ok := object.(*metav1.PartialObjectMetadata); ok && matches(node, selector) {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names
}

func matches(node *metav1.PartialObjectMetadata, selector labels.Selector) bool {
	return node.DeletionTimestamp == nil && selector.Matches(labels.Set(node.Labels))
}

func selectorOf(nodeSelector map[string]v1alpha1.LabelValue) (labels.Selector, error) {
	selector, err := labels.ValidatedSelectorFromSet(plain(nodeSelector))
	if err != nil {
		return nil, fmt.Errorf("spec.nodeSelector: %w", err)
	}
	return selector, nil
}

// plain is a map with values of a type of the API as one with strings.
func plain[V ~string](values map[string]V) map[string]string {
	found := make(map[string]string, len(values))
	for key, value := range values {
		found[key] = string(value)
	}
	return found
}

// nodeChanged ignores the heartbeats of kubelets.
func nodeChanged(before, after *metav1.PartialObjectMetadata) controller.Reason {
	if before == nil || after == nil || !labels.Equals(before.Labels, after.Labels) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
		return controller.DependencyReady
	}
	return 0
}
