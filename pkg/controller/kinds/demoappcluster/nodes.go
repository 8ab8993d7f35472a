// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoappcluster

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/metacache"
)

// NodeWatch is an informer of the metadata of Nodes that starts when it is first needed, see
// [controller.OnDemand].
type NodeWatch interface {
	Informer() cache.SharedIndexInformer
	Need(key cache.ObjectName, queue controller.Enqueuer) error
}

// KeepNode returns the cached part of a Node. It drops unused metadata, because a large cluster has
// thousands of Nodes.
func KeepNode(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	node := metacache.Identity(whole)
	node.Labels, node.DeletionTimestamp = whole.Labels, whole.DeletionTimestamp
	return node
}

// matchingNodes returns the sorted names of the selected nodes.
func matchingNodes(nodes cache.Store, selector labels.Selector) []string {
	var names []string
	for _, object := range nodes.List() {
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

// plain converts a map of API string types to a map of strings.
func plain[V ~string](values map[string]V) map[string]string {
	found := make(map[string]string, len(values))
	for key, value := range values {
		found[key] = string(value)
	}
	return found
}

// nodeChanged returns the reason to enqueue the DemoAppClusters of a changed node. It
// ignores kubelet heartbeats.
func nodeChanged(before, after *metav1.PartialObjectMetadata) controller.Reason {
	if before == nil || after == nil || !labels.Equals(before.Labels, after.Labels) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
		return controller.DependencyReady
	}
	return 0
}
