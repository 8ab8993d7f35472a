// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// leaseName is the name of the operator's lease by default.
const leaseName = "demoapp-controller"

// shortLease makes a dead leader's lease expire earlier than by default, but is long enough for a busy machine.
var shortLease = []string{
	"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=500ms",
}

// shared is the control plane of all tests of this package.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	t := &cluster.MainTest{}
	builds = t.TempDir()
	os.Exit(t.End(cluster.Main(m, cluster.Options{Audit: true}, func(c *cluster.Cluster) { shared = c })))
}

// stopOrderly stops an operator. It reports an exit code that is not 0, and errors that the operator logs while it stops.
func stopOrderly(t *testing.T, operator *cluster.Operator) {
	t.Helper()
	before := len(operator.Log())
	if code := operator.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(operator.Log()[before:]) {
		if strings.Contains(line, "level=ERROR") {
			t.Errorf("logged while it stopped: %s", line)
		}
	}
}

// newNamespace creates the namespace of a test. Call it before starting an operator: the DemoApps in the namespace are
// then removed after the last operator has ended, and do not reach the operator of the next test.
func newNamespace(t *testing.T) *apps.Namespace {
	t.Helper()
	if err := shared.InstallCRDs(t.Context(), "artifacts/crds"); err != nil {
		t.Fatal(err)
	}
	ns := apps.New(t, shared)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := ns.Demo.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		left, err := ns.Demo.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		for i := range left.Items {
			_, err := ns.Demo.Patch(ctx, left.Items[i].Name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	return ns
}

// createMany creates DemoApps and returns their names.
func createMany(ns *apps.Namespace, count int) []string {
	names := make([]string, 0, count)
	for i := range count {
		name := fmt.Sprintf("web-%02d", i)
		ns.Create(apps.Named(name))
		names = append(names, name)
	}
	return names
}

// awaitReady waits until all DemoApps are ready at a revision.
func awaitReady(ns *apps.Namespace, names []string, revision int64) {
	for _, name := range names {
		ns.Await(name, fmt.Sprintf("ready at revision %d", revision), func(app *v1alpha1.DemoApp) bool {
			return apps.IsReady(app) && apps.Revision(app) == revision
		})
	}
}

// awaitFirst waits until done holds for any of the DemoApps.
func awaitFirst(t *testing.T, ns *apps.Namespace, names []string, what string, done func(*v1alpha1.DemoApp) bool) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "one DemoApp "+what, func(context.Context) (bool, error) {
		return count(ns, names, done) > 0, nil
	})
}

// count returns the number of DemoApps for which done holds.
func count(ns *apps.Namespace, names []string, done func(*v1alpha1.DemoApp) bool) int {
	found := 0
	for _, name := range names {
		if versions := ns.Versions(name); len(versions) > 0 && done(versions[len(versions)-1].App) {
			found++
		}
	}
	return found
}

// atRevision is a condition for count.
func atRevision(revision int64) func(*v1alpha1.DemoApp) bool {
	return func(app *v1alpha1.DemoApp) bool { return apps.Revision(app) == revision }
}

// assertRecords asserts that each release has exactly these revisions.
func assertRecords(t *testing.T, ns *apps.Namespace, names []string, want ...string) {
	t.Helper()
	got := map[string][]string{}
	for _, record := range ns.Records("") {
		got[record.Release] = append(got[record.Release], fmt.Sprintf("v%d %s", record.Revision, record.Status))
	}
	for _, name := range names {
		if strings.Join(got[name], ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: the records are %v, want %v", name, got[name], want)
		}
	}
}

// pending returns the number of revisions with an unfinished operation.
func pending(ns *apps.Namespace) int {
	found := 0
	for _, record := range ns.Records("") {
		if strings.HasPrefix(record.Status, "pending-") {
			found++
		}
	}
	return found
}

// leads reports whether an operator's metrics say that it leads.
func leads(ctx context.Context, operator *cluster.Operator) (bool, error) {
	metrics, err := operator.Metrics(ctx)
	return strings.Contains(metrics, fmt.Sprintf("leader_election_master_status{name=%q} 1\n", leaseName)), err
}

// awaitLead waits until an operator leads.
func awaitLead(t *testing.T, operator *cluster.Operator) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "operator leads", func(ctx context.Context) (bool, error) { return leads(ctx, operator) })
}

func getLease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := shared.Client.CoordinationV1().Leases(cluster.OperatorNamespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
