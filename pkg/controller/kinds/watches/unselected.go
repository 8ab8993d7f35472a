// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
)

const (
	// maxUnselectedEvents is the number of custom resources that get an event.
	maxUnselectedEvents = 10
	// unselectedPage is the number of custom resources in one page of a list.
	unselectedPage = 500
	// unselectedRetry is the time until the next look if a look failed, or the process has no shard yet.
	unselectedRetry = 10 * time.Second
)

// watchUnselected reports the custom resources that the selector of the kind leaves out although they have
// the finalizer of a release, at the start and with each resync period. operator-sdk's helm-operator may
// have ignored the selector. Another operator may serve them, so this operator does not remove the
// finalizer.
func (c *kindController) watchUnselected(ctx context.Context, resource schema.GroupVersionResource, namespaces []string) {
	if c.kind.Selector.Empty() {
		return
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for {
		wait := c.deps.ResyncPeriod
		if c.deps.Shards != nil && len(c.deps.Shards.Held()) == 0 {
			wait = unselectedRetry
		} else if err := c.reportUnselected(ctx, resource, namespaces); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot look for custom resources that are not selected", "kind", c.kind.Name())
			wait = unselectedRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-c.deps.Clock.After(wait):
		}
	}
}

// reportUnselected looks once.
func (c *kindController) reportUnselected(ctx context.Context, resource schema.GroupVersionResource, namespaces []string) error {
	count := 0
	for _, namespace := range namespaces {
		options := metav1.ListOptions{Limit: unselectedPage}
		for {
			page, err := c.deps.metadata.Resource(resource).Namespace(namespace).List(ctx, options)
			if err != nil {
				return err
			}
			for i := range page.Items {
				if found := &page.Items[i]; c.isStranded(found) {
					if count++; count <= maxUnselectedEvents {
						found.SetGroupVersionKind(c.kind.GroupVersionKind)
						event.Emit(ctx, c.deps.Recorder, found, unselected(c.kind.Selector))
					}
				}
			}
			if options.Continue = page.Continue; page.Continue == "" {
				break
			}
		}
	}
	if count > 0 {
		klog.FromContext(ctx).Error(nil, "Custom resources that the selector does not select have the finalizer of a release", "kind", c.kind.Name(), "count", count)
	}
	c.deps.Unselected(c.kind.Name(), count)
	return nil
}

// isStranded reports whether a custom resource of the process has the finalizer of a release and is not
// selected.
func (c *kindController) isStranded(object metav1.Object) bool {
	held := slices.Contains(object.GetFinalizers(), watchesv1alpha1.Finalizer) ||
		slices.Contains(object.GetFinalizers(), watchesv1alpha1.FormerFinalizer)
	return held && !c.kind.Selector.Matches(labels.Set(object.GetLabels())) &&
		(c.deps.Shards == nil || c.deps.Shards.Holds(object.GetNamespace()))
}

func unselected(selector labels.Selector) event.Event {
	return event.Warning("NotSelected", "Reconcile", fmt.Sprintf("The selector %q of watches.yaml does not select this resource, so this operator "+
		"neither serves it nor removes its finalizer: give it the labels, or remove the finalizer, see docs/migration.md", selector))
}
