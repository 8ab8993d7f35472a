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

func TestLeaderEndsWhenLeaseIsLost(t *testing.T) {
	apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
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
