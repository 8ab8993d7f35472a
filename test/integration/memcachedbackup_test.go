// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	cacheclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/cache/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// caches is a namespace for the MemcachedBackup "cache".
type caches struct {
	*plain[*cachev1.MemcachedBackup]
}

func newCaches(t *testing.T) *caches {
	t.Helper()
	return &caches{newPlain[*cachev1.MemcachedBackup](t, "cache", func(client *versioned.Clientset, namespace string) cacheclient.MemcachedBackupInterface {
		return client.CacheV1().MemcachedBackups(namespace)
	}, "memcachedbackup")}
}

func (c *caches) create(size int32) {
	c.t.Helper()
	c.add(&cachev1.MemcachedBackup{Spec: cachev1.MemcachedBackupSpec{Size: ptr.To(size)}})
}

func (c *caches) resize(size int32) {
	c.t.Helper()
	c.patch(fmt.Sprintf(`{"spec":{"size":%d}}`, size))
}

// awaitPods returns the MemcachedBackup once it is healthy and its status has the names of the pods
// that exist.
func (c *caches) awaitPods(number int) *cachev1.MemcachedBackup {
	c.t.Helper()
	var backup *cachev1.MemcachedBackup
	cluster.Eventually(c.t.Context(), c.t, fmt.Sprintf("the MemcachedBackup has %d pods", number), func(ctx context.Context) (bool, error) {
		var err error
		if backup, err = c.objects.Get(ctx, "cache", metav1.GetOptions{}); err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(backup.Status.Conditions, "Ready")
		names, err := c.pods(ctx)
		if err != nil {
			return false, err
		}
		if ready == nil || ready.ObservedGeneration != backup.Generation || ready.Reason != apimeta.ReasonHealthy ||
			len(names) != number || !slices.Equal(backup.Status.Nodes, names) {
			return false, fmt.Errorf("pods are %v, status is %+v", names, backup.Status)
		}
		return true, nil
	})
	return backup
}

func (c *caches) pods(ctx context.Context) ([]string, error) {
	found, err := shared.Client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: cachev1.LabelMemcachedBackup + "=cache"})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range found.Items {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names, nil
}

// TestMemcachedBackupLife follows a MemcachedBackup from its creation to its deletion, and counts
// the requests.
func TestMemcachedBackupLife(t *testing.T) {
	t.Parallel()
	c := newCaches(t)

	begin := time.Now()
	c.create(2)
	if backup := c.awaitPods(2); backup.Status.ReadyReplicas != 2 {
		t.Errorf("status is %+v", backup.Status)
	}
	created := c.settle(begin)
	assertStatusWrites(t, created, "memcachedbackups", 2, begin)
	if want := map[string]int{"patch deployments": 1, "create events": 2}; !maps.Equal(created, want) {
		t.Errorf("requests of the creation, without status, are %v, want %v", created, want)
	}

	begin = time.Now()
	c.resize(3)
	c.awaitPods(3)
	if requests := c.settle(begin); requests["patch deployments"] != 1 {
		t.Errorf("requests of the resize are %v", requests)
	}
	c.resize(0)
	c.awaitPods(0)
	c.settle(begin)

	c.remove()
	cluster.Eventually(t.Context(), t, "the Deployment is gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.AppsV1().Deployments(c.namespace).Get(ctx, "cache", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
