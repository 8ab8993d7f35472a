// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/health"
)

const (
	// maxSingleReads is the number of requests for objects of a kind in a namespace on one level of
	// a tree. For more, all objects of the kind in the namespace are listed.
	maxSingleReads = 20
	// maxListed bounds such a list, as a multiple of the requests that it saves: many objects of a
	// namespace may belong to other owners.
	maxListed = 50
)

// place is a kind in a namespace.
type place struct {
	schema.GroupVersionKind

	namespace string
}

// listed are all objects of a kind in a namespace.
type listed struct {
	byName       map[string]*unstructured.Unstructured
	byController map[types.UID][]*unstructured.Unstructured
	// revisions are read from the records among Secrets.
	revisions map[string][]Revision
}

// readLists lists the kinds of which the nodes of a level need many objects.
func (t *treeReader) readLists(ctx context.Context, level []*Node) {
	type result struct {
		place

		list *listed
	}
	var group sync.WaitGroup
	results := make(chan result)
	for where, wanted := range t.wanted(level) {
		if _, known := t.lists[where]; known || wanted <= maxSingleReads {
			continue
		}
		group.Go(func() { results <- result{where, t.list(ctx, where, wanted*maxListed)} })
	}
	go func() {
		group.Wait()
		close(results)
	}()
	for read := range results {
		t.lists[read.place] = read.list
	}
}

// wanted counts the requests that the nodes of a level need without lists.
func (t *treeReader) wanted(level []*Node) map[place]int {
	counts := map[place]int{}
	for _, node := range level {
		if node.Object == nil {
			continue
		}
		if kind, ok := controlledKind(node); ok {
			counts[place{kind, node.Namespace}]++
		}
		if !node.Owned() {
			continue
		}
		named, _ := t.named(node)
		for _, child := range named {
			counts[place{child.GroupVersionKind, child.Namespace}]++
		}
		if node.status.Release.DeployedRelease != nil {
			counts[place{secrets, node.Namespace}]++
		}
	}
	return counts
}

// list lists a kind in a namespace. It returns nil if there are more than limit objects or if they
// cannot be listed: each single request then returns its own error.
func (t *treeReader) list(ctx context.Context, where place, limit int) *listed {
	t.reads <- struct{}{}
	defer func() { <-t.reads }()
	// Objects without a status are healthy as soon as they exist, and the data of Secrets is not
	// shown.
	onlyMetadata := health.Statusless[where.GroupKind()]
	objects, complete, err := t.cluster.listUpTo(ctx, where.GroupVersionKind, where.namespace, "", limit, onlyMetadata)
	if err != nil || !complete {
		return nil
	}
	list := &listed{byName: map[string]*unstructured.Unstructured{}, byController: map[types.UID][]*unstructured.Unstructured{}}
	if where.GroupVersionKind == secrets {
		list.revisions = revisionsOf(objects)
	}
	for _, object := range objects {
		list.byName[object.GetName()] = object
		if controller := metav1.GetControllerOf(object); controller != nil {
			list.byController[controller.UID] = append(list.byController[controller.UID], object)
		}
	}
	return list
}
