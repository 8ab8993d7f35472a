// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ui

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/test/cluster"
)

// await waits until the summary of a DemoApp in the namespace shop satisfies a condition.
func await(t testing.TB, name, what string, holds func(inspect.Summary) bool) {
	t.Helper()
	cluster.Eventually(t.Context(), t, what, func(ctx context.Context) (bool, error) {
		object, err := shared.Dynamic.Resource(demoApps).Namespace("shop").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		summary := inspect.Summarize(object)
		return holds(summary), fmt.Errorf("%s: %s", summary.Reason, summary.Message)
	})
}

func awaitRevision(t testing.TB, name string, revision int64) {
	t.Helper()
	await(t, name, fmt.Sprintf("revision %d of %s", revision, name), func(s inspect.Summary) bool {
		return s.Revision >= revision && s.State() == inspect.StateReady
	})
}

func awaitDrift(t testing.TB, name string) {
	t.Helper()
	await(t, name, "drift of "+name, func(s inspect.Summary) bool { return s.Drifted })
}
