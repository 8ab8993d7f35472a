// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
)

// restoreWatch ends the process after a restore of etcd. The caches of the process are then newer than
// the cluster: a watch waits for versions that are yet to come, and a write of the process seems to be
// missing in a cache. Kubernetes asks for a restart of all its components then, see
// https://github.com/kubernetes/kubernetes/issues/118501.
//
// The resourceVersion of a Lease shows the restore, because it never decreases otherwise. A replica asks
// for its Leases every few seconds, so the watch costs no request.
type restoreWatch struct {
	coordinationv1client.LeasesGetter

	// restored receives the error that ends the process. It has room for one.
	restored chan error

	mu sync.Mutex
	// newest are the last resourceVersions of the Leases.
	newest map[cache.ObjectName]string
}

func newRestoreWatch(leases coordinationv1client.LeasesGetter) *restoreWatch {
	return &restoreWatch{LeasesGetter: leases, restored: make(chan error, 1), newest: map[cache.ObjectName]string{}}
}

// run returns an error after a restore, and nil at the end of ctx.
func (w *restoreWatch) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.restored:
		return err
	}
}

// Leases implements [coordinationv1client.LeasesGetter].
func (w *restoreWatch) Leases(namespace string) coordinationv1client.LeaseInterface {
	return watchedLease{w.LeasesGetter.Leases(namespace), w, namespace}
}

// known returns the last resourceVersion of a Lease; "" for an unknown Lease.
func (w *restoreWatch) known(lease cache.ObjectName) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest[lease]
}

// note compares an answer with the version that was known when its request was sent. Answers to
// concurrent requests may arrive in any order.
func (w *restoreWatch) note(lease cache.ObjectName, before string, answer *coordinationv1.Lease) {
	if order, err := resourceversion.CompareResourceVersion(answer.ResourceVersion, before); err == nil && order < 0 {
		select {
		case w.restored <- fmt.Errorf("the Lease %s went back from resourceVersion %s to %s, so etcd was restored: this process ends, "+
			"because its caches are newer than the cluster", lease, before, answer.ResourceVersion):
		default:
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(answer.ResourceVersion, w.newest[lease]); err != nil || order > 0 {
		w.newest[lease] = answer.ResourceVersion
	}
}

// watchedLease shows the answers about Leases to a restoreWatch.
type watchedLease struct {
	coordinationv1client.LeaseInterface

	watch     *restoreWatch
	namespace string
}

// ask sends a request about a Lease.
func (l watchedLease) ask(name string, send func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	key := cache.NewObjectName(l.namespace, name)
	before := l.watch.known(key)
	answer, err := send()
	if err == nil {
		l.watch.note(key, before, answer)
	}
	return answer, err
}

// Get implements [coordinationv1client.LeaseInterface].
func (l watchedLease) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	return l.ask(name, func() (*coordinationv1.Lease, error) { return l.LeaseInterface.Get(ctx, name, options) })
}

// Create implements [coordinationv1client.LeaseInterface].
func (l watchedLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.ask(lease.Name, func() (*coordinationv1.Lease, error) { return l.LeaseInterface.Create(ctx, lease, options) })
}

// Update implements [coordinationv1client.LeaseInterface].
func (l watchedLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.ask(lease.Name, func() (*coordinationv1.Lease, error) { return l.LeaseInterface.Update(ctx, lease, options) })
}

// Patch implements [coordinationv1client.LeaseInterface].
func (l watchedLease) Patch(
	ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string,
) (*coordinationv1.Lease, error) {
	return l.ask(name, func() (*coordinationv1.Lease, error) {
		return l.LeaseInterface.Patch(ctx, name, patchType, data, options, subresources...)
	})
}
