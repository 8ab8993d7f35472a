// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestTerminationDuringInstalls interrupts the installs of twice as many DemoApps as the operator
// has workers.
func TestTerminationDuringInstalls(t *testing.T) {
	const many = 20
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	cluster.AwaitLead(t, operator)

	names := ns.CreateMany(many)
	ns.AwaitFirst(names, "installed", apps.AtRevision(1))
	operator.StopOrderly(t)
	if holder := ptr.Deref(shared.Lease(t).Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("the lease is still held by %s", holder)
	}
	if unfinished := ns.Pending(); unfinished > 0 {
		t.Errorf("%d releases are pending: %v", unfinished, ns.Records(""))
	}
	t.Logf("ended with %d of %d installed", ns.Count(names, apps.AtRevision(1)), many)

	cluster.StartOperator(t.Context(), t, shared)
	ns.AwaitAll(names, 1)
	ns.AssertRecords(names, "v1 deployed")
}
