// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/health"
)

// maxEventReads is the number of objects whose events are read one by one.
const maxEventReads = 32

// Events returns the events of a node and all nodes below it, the oldest first. It asks for the
// events of each object, so that the number of requests does not grow with the namespace. For a
// larger tree, it lists the events of the namespaces of the tree.
func (c *Cluster) Events(ctx context.Context, root *Node) ([]corev1.Event, error) {
	uids := map[types.UID]string{}
	root.All(func(node *Node) bool {
		if node.Object != nil {
			uids[node.Object.GetUID()] = node.Namespace
		}
		return true
	})
	type query struct {
		namespace string
		uid       types.UID
	}
	queries := map[query]bool{}
	for uid, namespace := range uids {
		if len(uids) > maxEventReads {
			uid = ""
		}
		queries[query{namespace, uid}] = true
	}
	var mu sync.Mutex
	var found []corev1.Event
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for q := range queries {
		group.Go(func() error {
			events, err := c.eventsOf(ctx, q.namespace, q.uid)
			mu.Lock()
			defer mu.Unlock()
			for _, event := range events {
				if _, inTree := uids[event.InvolvedObject.UID]; inTree {
					found = append(found, event)
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b corev1.Event) int {
		return cmp.Or(health.LastSeen(a).Compare(health.LastSeen(b)), cmp.Compare(a.InvolvedObject.Kind, b.InvolvedObject.Kind), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// eventsOf returns the events of the object with a UID; of the whole namespace without one. The
// events of cluster-scoped objects are in the namespace default.
func (c *Cluster) eventsOf(ctx context.Context, namespace string, uid types.UID) ([]corev1.Event, error) {
	var found []corev1.Event
	options := metav1.ListOptions{Limit: pageSize}
	if uid != "" {
		options.FieldSelector = fields.OneTermEqualSelector("involvedObject.uid", string(uid)).String()
	}
	for {
		page, err := c.Kubernetes.CoreV1().Events(cmp.Or(namespace, metav1.NamespaceDefault)).List(ctx, options)
		if err != nil {
			return nil, err
		}
		found = append(found, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			return found, nil
		}
	}
}
