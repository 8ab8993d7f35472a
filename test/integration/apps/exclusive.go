// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
)

// NewExclusive creates the namespace of a test that starts the operators of the cluster itself, and
// installs the CRD. Call it before an operator starts: the DemoApps of the namespace are then
// removed after the last operator has ended, so that the operator of the next test does not see
// them.
func NewExclusive(t testing.TB, c *cluster.Cluster) *Namespace {
	t.Helper()
	if err := c.InstallCRDs(t.Context(), "artifacts/crds"); err != nil {
		t.Fatal(err)
	}
	n := New(t, c)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := n.Demo.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		left, err := n.Demo.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		for i := range left.Items {
			_, err := n.Demo.Patch(ctx, left.Items[i].Name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	return n
}

// CreateMany creates DemoApps and returns their names.
func (n *Namespace) CreateMany(count int) []string {
	n.t.Helper()
	names := make([]string, 0, count)
	for i := range count {
		name := fmt.Sprintf("web-%02d", i)
		n.Create(Named(name))
		names = append(names, name)
	}
	return names
}

// AwaitAll waits until all DemoApps are ready at a revision.
func (n *Namespace) AwaitAll(names []string, revision int64) {
	n.t.Helper()
	for _, name := range names {
		n.Await(name, fmt.Sprintf("ready at revision %d", revision), func(app *v1alpha1.DemoApp) bool {
			return IsReady(app) && Revision(app) == revision
		})
	}
}

// AwaitFirst waits until done holds for any of the DemoApps.
func (n *Namespace) AwaitFirst(names []string, what string, done func(*v1alpha1.DemoApp) bool) {
	n.t.Helper()
	cluster.Eventually(n.t.Context(), n.t, "one DemoApp "+what, func(context.Context) (bool, error) {
		return n.Count(names, done) > 0, nil
	})
}

// Count returns the number of DemoApps for which done holds.
func (n *Namespace) Count(names []string, done func(*v1alpha1.DemoApp) bool) int {
	found := 0
	for _, name := range names {
		if versions := n.Versions(name); len(versions) > 0 && done(versions[len(versions)-1].App) {
			found++
		}
	}
	return found
}

// AtRevision is a condition for [Namespace.Count] and [Namespace.AwaitFirst].
func AtRevision(revision int64) func(*v1alpha1.DemoApp) bool {
	return func(app *v1alpha1.DemoApp) bool { return Revision(app) == revision }
}

// AssertRecords asserts that each release has exactly these revisions.
func (n *Namespace) AssertRecords(names []string, want ...string) {
	n.t.Helper()
	got := map[string][]string{}
	for _, record := range n.Records("") {
		got[record.Release] = append(got[record.Release], fmt.Sprintf("v%d %s", record.Revision, record.Status))
	}
	for _, name := range names {
		if strings.Join(got[name], ", ") != strings.Join(want, ", ") {
			n.t.Errorf("%s: the records are %v, want %v", name, got[name], want)
		}
	}
}

// Pending returns the number of revisions with an unfinished operation.
func (n *Namespace) Pending() int {
	n.t.Helper()
	found := 0
	for _, record := range n.Records("") {
		if strings.HasPrefix(record.Status, "pending-") {
			found++
		}
	}
	return found
}

// AwaitNoWork waits until the operator has sent no request of [IsWork] for three seconds.
func AwaitNoWork(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.DefaultTimeout)
	defer cancel()
	if err := c.AwaitAuditQuiet(ctx, 3*time.Second, IsWork); err != nil {
		t.Fatal(err)
	}
}

// IsWork selects the operator's requests except requests of any start and of any idle time:
// watches, the lists that begin watches, the lease, reviews of permissions, and discovery, which
// names no resource.
func IsWork(request cluster.AuditEvent) bool {
	return cluster.ByOperator()(request) && request.Group != "authorization.k8s.io" &&
		request.Verb != "watch" && request.Verb != "list" && request.Resource != "leases" && request.Resource != ""
}
