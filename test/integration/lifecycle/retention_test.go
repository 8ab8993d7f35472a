// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"testing"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

func TestExpiredAuditRecordsAreRemoved(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	createWaiting(ns)
	ns.Delete("waiting")
	ns.AwaitGone("waiting")
	operator.Stop()
	if records := ns.AuditRecords("waiting"); len(records) != 1 {
		t.Fatalf("%d audit records", len(records))
	}

	// An operator removes records when it starts to lead, and then once an hour. --namespaces does
	// not have to name the audit namespace.
	cluster.StartOperator(t.Context(), t, shared, "--audit-retention=1ms", "--namespaces="+ns.Name)

	cluster.Eventually(t.Context(), t, "audit record removed", func(context.Context) (bool, error) {
		return len(ns.AuditRecords("waiting")) == 0, nil
	})
}
