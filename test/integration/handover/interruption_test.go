// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// many is the number of DemoApps that are reconciled when the operator is interrupted: twice the
// number of workers.
const many = 20

// TestKillDuringInstallsAndUpgrades waits twice until the lease of a killed leader expires.
func TestKillDuringInstallsAndUpgrades(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
	cluster.AwaitLead(t, operator)

	names := ns.CreateMany(many)
	ns.AwaitFirst(names, "installed", apps.AtRevision(1))
	operator.Kill()
	t.Logf("killed with %d of %d installed, %d pending", ns.Count(names, apps.AtRevision(1)), many, ns.Pending())

	operator = cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
	ns.AwaitAll(names, 1)
	ns.AssertRecords(names, "v1 deployed")

	for _, name := range names {
		ns.Change(name, func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	}
	ns.AwaitFirst(names, "upgraded", apps.AtRevision(2))
	operator.Kill()
	t.Logf("killed with %d of %d upgraded, %d pending", ns.Count(names, apps.AtRevision(2)), many, ns.Pending())

	cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
	ns.AwaitAll(names, 2)
	ns.AssertRecords(names, "v1 superseded", "v2 deployed")

	for _, name := range names {
		ns.Delete(name)
	}
	for _, name := range names {
		ns.AwaitGone(name)
		if records := ns.AuditRecords(name); len(records) != 1 {
			t.Errorf("%s: %d audit records", name, len(records))
		}
	}
}

func TestKillDuringDeletions(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
	names := ns.CreateMany(many)
	ns.AwaitAll(names, 1)
	for _, name := range names {
		ns.Delete(name)
	}
	ns.AwaitGone(names[0])
	operator.Kill()

	cluster.StartOperator(t.Context(), t, shared, cluster.ShortLease...)
	for _, name := range names {
		ns.AwaitGone(name)
		if records := ns.AuditRecords(name); len(records) != 1 {
			t.Errorf("%s: %d audit records", name, len(records))
		}
		if objects := ns.Objects(name).All(); len(objects) > 0 {
			t.Errorf("%s: left are %v", name, objects)
		}
	}
	if records := ns.Records(""); len(records) > 0 {
		t.Errorf("left are %v", records)
	}
}

func TestTerminationDuringInstalls(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	cluster.AwaitLead(t, operator)

	names := ns.CreateMany(many)
	ns.AwaitFirst(names, "installed", apps.AtRevision(1))
	begin := time.Now()
	operator.StopOrderly(t)
	// No operation hangs, so the end comes long before --shutdown-timeout.
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %s to end", took)
	}
	if holder := ptr.Deref(shared.Lease(t).Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("the lease is still held by %s", holder)
	}
	if unfinished := ns.Pending(); unfinished > 0 {
		t.Errorf("%d releases are pending: %v", unfinished, ns.Records(""))
	}
	t.Logf("ended after %s with %d of %d installed", time.Since(begin), ns.Count(names, apps.AtRevision(1)), many)

	begin = time.Now()
	next := cluster.StartOperator(t.Context(), t, shared)
	cluster.AwaitLead(t, next)
	// A lease that was not released would take 15 seconds to expire.
	if took := time.Since(begin); took > 12*time.Second {
		t.Errorf("the next operator led after %s", took)
	}
	ns.AwaitAll(names, 1)
	ns.AssertRecords(names, "v1 deployed")
}
