// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	cachev1 "github.com/example/demoapp-controller/pkg/apis/cache/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
	cacheclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/cache/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// installMemcachedBackups installs the kind. The operator runs already, and waits for it.
var installMemcachedBackups = sync.OnceValue(func() error {
	ctx := context.Background()
	return errors.Join(
		shared.InstallCRDs(ctx, "artifacts/kinds/memcachedbackup/crd.yaml"),
		shared.ApplyFiles(ctx, "", "artifacts/kinds/memcachedbackup/rbac.yaml"),
	)
})

// caches is a namespace whose pods must meet the restricted profile, and its MemcachedBackups.
type caches struct {
	t         *testing.T
	namespace string
	backups   cacheclient.MemcachedBackupInterface
}

func newCaches(t *testing.T) *caches {
	t.Helper()
	if err := installMemcachedBackups(); err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(shared.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	namespace := shared.Namespace(t)
	showLogOnFailure(t, namespace)
	restricted := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, restricted, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return &caches{t: t, namespace: namespace, backups: client.CacheV1().MemcachedBackups(namespace)}
}

func (c *caches) create(size int32) {
	c.t.Helper()
	_, err := c.backups.Create(c.t.Context(), &cachev1.MemcachedBackup{
		ObjectMeta: metav1.ObjectMeta{Name: "cache"}, Spec: cachev1.MemcachedBackupSpec{Size: ptr.To(size)},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *caches) resize(size int32) {
	c.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"size":%d}}`, size)
	if _, err := c.backups.Patch(c.t.Context(), "cache", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// awaitPods returns the MemcachedBackup once it is healthy and its status has the names of the pods that exist.
func (c *caches) awaitPods(number int) *cachev1.MemcachedBackup {
	c.t.Helper()
	var backup *cachev1.MemcachedBackup
	cluster.Eventually(c.t.Context(), c.t, fmt.Sprintf("the MemcachedBackup has %d pods", number), func(ctx context.Context) (bool, error) {
		var err error
		if backup, err = c.backups.Get(ctx, "cache", metav1.GetOptions{}); err != nil {
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

// requests waits until the operator is done in the namespace, and returns what it wrote since, by verb and resource.
func (c *caches) requests(since time.Time) map[string]int {
	c.t.Helper()
	return (&site{t: c.t, namespace: c.namespace}).settle(since)
}

// TestMemcachedBackupLife follows a MemcachedBackup from its creation to its deletion, and counts the requests.
func TestMemcachedBackupLife(t *testing.T) {
	t.Parallel()
	c := newCaches(t)

	begin := time.Now()
	c.create(2)
	if backup := c.awaitPods(2); backup.Status.ReadyReplicas != 2 {
		t.Errorf("status is %+v", backup.Status)
	}
	created := c.requests(begin)
	assertStatusWrites(t, created, "memcachedbackups", 2, begin)
	if want := map[string]int{"patch deployments": 1, "create events": 2}; !maps.Equal(created, want) {
		t.Errorf("requests of the creation, without status, are %v, want %v", created, want)
	}

	begin = time.Now()
	c.resize(3)
	c.awaitPods(3)
	if requests := c.requests(begin); requests["patch deployments"] != 1 {
		t.Errorf("requests of the resize are %v", requests)
	}
	c.resize(0)
	c.awaitPods(0)
	c.requests(begin)

	if err := c.backups.Delete(t.Context(), "cache", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the Deployment is gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Client.AppsV1().Deployments(c.namespace).Get(ctx, "cache", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
