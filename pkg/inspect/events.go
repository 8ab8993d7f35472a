// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Events returns the events of a node and all nodes below it, the oldest first. It lists the
// events of each namespace of the tree once.
func (c *Cluster) Events(ctx context.Context, root *Node) ([]corev1.Event, error) {
	uids := map[types.UID]bool{}
	namespaces := map[string]bool{}
	root.All(func(node *Node) bool {
		if node.Object != nil {
			uids[node.Object.GetUID()] = true
			namespaces[node.Namespace] = true
		}
		return true
	})
	var found []corev1.Event
	for namespace := range namespaces {
		events, err := c.eventsOf(ctx, namespace)
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			if uids[event.InvolvedObject.UID] {
				found = append(found, event)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b corev1.Event) int { return LastSeen(a).Compare(LastSeen(b)) })
	return found, nil
}

// eventsOf returns the events of a namespace; an empty one stands for cluster-scoped objects, whose
// events are in the namespace default.
func (c *Cluster) eventsOf(ctx context.Context, namespace string) ([]corev1.Event, error) {
	var found []corev1.Event
	options := metav1.ListOptions{Limit: pageSize}
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

// LastSeen returns the time at which an event happened last.
func LastSeen(event corev1.Event) time.Time {
	last := event.LastTimestamp.Time
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	if last.IsZero() {
		last = event.EventTime.Time
	}
	if last.IsZero() {
		last = event.CreationTimestamp.Time
	}
	return last
}
