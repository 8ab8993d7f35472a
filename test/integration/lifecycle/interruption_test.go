// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
)

// many is the number of DemoApps that are reconciled when the operator is interrupted: twice the number of workers.
const many = 20

// TestKillDuringInstallsAndUpgrades waits twice until the lease of a killed leader expires.
func TestKillDuringInstallsAndUpgrades(t *testing.T) {
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared, shortLease...)
	awaitLead(t, operator)

	names := createMany(ns, many)
	awaitFirst(t, ns, names, "installed", atRevision(1))
	operator.Kill()
	t.Logf("killed with %d of %d installed, %d pending", count(ns, names, atRevision(1)), many, pending(ns))

	operator = cluster.StartOperator(t.Context(), t, shared, shortLease...)
	awaitReady(ns, names, 1)
	assertRecords(t, ns, names, "v1 deployed")

	for _, name := range names {
		ns.Change(name, func(spec *v1alpha1.DemoAppSpec) { spec.Message = "Second" })
	}
	awaitFirst(t, ns, names, "upgraded", atRevision(2))
	operator.Kill()
	t.Logf("killed with %d of %d upgraded, %d pending", count(ns, names, atRevision(2)), many, pending(ns))

	cluster.StartOperator(t.Context(), t, shared, shortLease...)
	awaitReady(ns, names, 2)
	assertRecords(t, ns, names, "v1 superseded", "v2 deployed")

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
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared, shortLease...)
	names := createMany(ns, many)
	awaitReady(ns, names, 1)
	for _, name := range names {
		ns.Delete(name)
	}
	ns.AwaitGone(names[0])
	operator.Kill()

	cluster.StartOperator(t.Context(), t, shared, shortLease...)
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
	ns := newNamespace(t)
	operator := cluster.StartOperator(t.Context(), t, shared)
	awaitLead(t, operator)

	names := createMany(ns, many)
	awaitFirst(t, ns, names, "installed", atRevision(1))
	begin := time.Now()
	stopOrderly(t, operator)
	// No operation hangs, so the end comes long before --shutdown-timeout.
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %s to end", took)
	}
	if holder := ptr.Deref(getLease(t).Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("the lease is still held by %s", holder)
	}
	if unfinished := pending(ns); unfinished > 0 {
		t.Errorf("%d releases are pending: %v", unfinished, ns.Records(""))
	}
	t.Logf("ended after %s with %d of %d installed", time.Since(begin), count(ns, names, atRevision(1)), many)

	begin = time.Now()
	next := cluster.StartOperator(t.Context(), t, shared)
	awaitLead(t, next)
	// A lease that was not released would take 15 seconds to expire.
	if took := time.Since(begin); took > 12*time.Second {
		t.Errorf("the next operator led after %s", took)
	}
	awaitReady(ns, names, 1)
	assertRecords(t, ns, names, "v1 deployed")
}
