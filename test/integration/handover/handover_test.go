// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestStandbyTakesOver waits until the lease of a killed leader expires.
func TestStandbyTakesOver(t *testing.T) {
	tests := []struct {
		name string
		end  func(t *testing.T, leader *cluster.Operator)
		// within is the longest time until the standby leads.
		within time.Duration
	}{
		{
			name: "leader is terminated",
			end: func(t *testing.T, leader *cluster.Operator) {
				t.Helper()
				leader.StopOrderly(t)
			},
			// The standby tries to acquire the lease every half second.
			within: 4 * time.Second,
		},
		{
			name: "leader is killed",
			end: func(t *testing.T, leader *cluster.Operator) {
				t.Helper()
				leader.Kill()
			},
			// The lease of six seconds has to expire; the rest is for a busy machine.
			within: 15 * time.Second,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ns := apps.NewExclusive(t, shared)
			leader := cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
			cluster.AwaitLead(t, leader)
			// StartOperator returns although the standby does not lead: readiness does not need the
			// lease.
			standby := cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
			if led, err := standby.Leads(t.Context()); err != nil || led {
				t.Errorf("the standby leads beside the leader (%v)", err)
			}

			names := ns.CreateMany(many)
			ns.AwaitFirst(names, "installed", apps.AtRevision(1))
			test.end(t, leader)
			begin := time.Now()
			cluster.AwaitLead(t, standby)
			took := time.Since(begin)
			t.Logf("the standby leads with %d of %d installed", ns.Count(names, apps.AtRevision(1)), many)
			assertWithin(t, "end of the leader to the lead of the standby", took, test.within)
			ns.AwaitAll(names, 1)
			ns.AssertRecords(names, "v1 deployed")
		})
	}
}

func TestLeaderEndsWhenLeaseIsLost(t *testing.T) {
	apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
	cluster.AwaitLead(t, operator)
	leases := shared.Client.CoordinationV1().Leases(cluster.OperatorNamespace)
	// A patch succeeds even if the leader writes at the same time.
	change := fmt.Sprintf(`{"spec": {"holderIdentity": "another-leader", "leaseDurationSeconds": 3600, "renewTime": %q}}`,
		time.Now().UTC().Format(metav1.RFC3339Micro))
	if _, err := leases.Patch(t.Context(), cluster.LeaseName, types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := leases.Delete(context.WithoutCancel(t.Context()), cluster.LeaseName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-operator.Exited():
	case <-time.After(cluster.DefaultTimeout):
		t.Fatal("the operator continues without its lease")
	}
	if code := operator.Stop(); code <= 0 {
		t.Errorf("exit code %d, want an error", code)
	}
	if holder := ptr.Deref(shared.Lease(t).Spec.HolderIdentity, ""); holder != "another-leader" {
		t.Errorf("the lease is held by %q", holder)
	}
}
