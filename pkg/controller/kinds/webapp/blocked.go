// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp

import (
	"context"

	"k8s.io/klog/v2"

	examplev1 "github.com/example/demoapp-controller/pkg/apis/example/v1"
)

// imageIndex is the index of WebApps by spec.image.
const imageIndex = "spec.image"

func byImage(object any) ([]string, error) {
	return []string{object.(*examplev1.WebApp).Spec.Image}, nil
}

// Blocked returns the number of WebApps with a blocked image, by the entry of Options.Blocked. It
// matches each distinct image once. Entries without WebApps have 0.
func (c *Controller) Blocked() map[string]int {
	counts := map[string]int{}
	for _, entry := range c.options.Blocked.Entries() {
		counts[entry] = 0
	}
	for _, indexer := range c.Cached() {
		for _, image := range indexer.ListIndexFuncValues(imageIndex) {
			if entry, blocked := c.options.Blocked.Match(image); blocked {
				keys, _ := indexer.IndexKeys(imageIndex, image) // The index exists since New.
				counts[entry] += len(keys)
			}
		}
	}
	return counts
}

// blockedBy returns the entry that blocks the image of a WebApp, or "". The log names each WebApp
// with a blocked image once in the life of the process, and again when its image changes.
func (c *Controller) blockedBy(ctx context.Context, p *pass) string {
	image := p.Object.Spec.Image
	entry, blocked := c.options.Blocked.Match(image)
	if !blocked {
		c.logged.Forget(p.Key())
	} else if logged, _ := c.logged.Get(p.Key()); logged != image {
		c.logged.Set(p.Key(), image)
		klog.FromContext(ctx).Info("The image of the WebApp is blocked, its rollouts wait", "image", image, "blockedBy", entry)
	}
	return entry
}
