// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeaseName is the name of the operator's lease by default.
const LeaseName = "demoapp-controller"

// longLease are the flags of every operator that a test starts, unless the test sets them. With
// them, an operator keeps its lease while the API server of a busy machine does not answer.
var longLease = []string{"--leader-elect-lease-duration=2m", "--leader-elect-renew-deadline=110s"}

// Flags for tests in which a lease expires.
var (
	// DefaultLease has the defaults of the operator.
	DefaultLease = []string{"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s"}
	// PatientLease is long enough for a replica on a busy machine, and short enough to wait for its
	// end.
	PatientLease = []string{"--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=27s"}
)

// Leads reports whether the operator's metrics say that it leads.
func (o *Operator) Leads(ctx context.Context) (bool, error) {
	metrics, err := o.Metrics(ctx)
	return strings.Contains(metrics, fmt.Sprintf("leader_election_master_status{name=%q} 1\n", LeaseName)), err
}

// AwaitLead waits until an operator leads.
func AwaitLead(t testing.TB, operator *Operator) {
	t.Helper()
	Eventually(t.Context(), t, "operator leads", operator.Leads)
}

// KillLeader ends the operator like a crash, and deletes its lease. The next operator then leads at
// once, and does not wait for the end of the lease.
func (c *Cluster) KillLeader(t testing.TB, operator *Operator) {
	t.Helper()
	operator.Kill()
	leases := c.Client.CoordinationV1().Leases(OperatorNamespace)
	if err := leases.Delete(t.Context(), LeaseName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// StopOrderly stops the operator. It reports an exit code that is not 0, and errors that the
// operator logs while it stops. That client-go cannot read an answer whose request the stop has
// canceled is no such error.
func (o *Operator) StopOrderly(t testing.TB) {
	t.Helper()
	before := len(o.Log())
	if code := o.Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(o.Log()[before:]) {
		if strings.Contains(line, "level=ERROR") && !strings.Contains(line, `err="context canceled"`) {
			t.Errorf("logged while it stopped: %s", line)
		}
	}
}

// Lease returns the operator's lease.
func (c *Cluster) Lease(t testing.TB) *coordinationv1.Lease {
	t.Helper()
	lease, err := c.Client.CoordinationV1().Leases(OperatorNamespace).Get(t.Context(), LeaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}
