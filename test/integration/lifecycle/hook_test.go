// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestEndlessHooksBlockNoOtherDemoApp: more DemoApps than the operator has workers wait for a hook,
// with the longest timeout.
func TestEndlessHooksBlockNoOtherDemoApp(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperatorBinary(t.Context(), t, shared, newerOperator(t))
	cluster.AwaitLead(t, operator)
	var stuck []string
	for i := range 15 {
		app := apps.Named(fmt.Sprintf("stuck-%02d", i))
		app.Spec.Timeout = &metav1.Duration{Duration: 24 * time.Hour}
		ns.Create(app)
		stuck = append(stuck, app.Name)
	}
	configMaps := shared.Client.CoreV1().ConfigMaps(ns.Name)
	cluster.Eventually(t.Context(), t, "all DemoApps wait for their hooks", func(ctx context.Context) (bool, error) {
		for _, name := range stuck {
			hook, err := configMaps.Get(ctx, name+"-hook", metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && hook.DeletionTimestamp == nil {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})

	others := ns.CreateMany(5)
	ns.AwaitAll(others, 1)

	if waiting := ns.Pending(); waiting != len(stuck) {
		t.Errorf("%d releases wait, want %d", waiting, len(stuck))
	}
	for _, name := range stuck {
		if _, err := configMaps.Patch(t.Context(), name+"-hook", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ns.AwaitAll(stuck, 1)
}
