// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package handover

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestReleaseOfPredecessorIsTakenOver removes DemoApps by force while no operator runs, and creates
// new ones with the same names. The remaining records name an owner that no longer exists.
func TestReleaseOfPredecessorIsTakenOver(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	operator := cluster.StartOperator(t.Context(), t, shared)
	ns.AddTenant("demoapps")
	before := map[string]types.UID{}
	ways := map[string]metav1.DeletionPropagation{
		"orphaned": metav1.DeletePropagationOrphan, "collected": metav1.DeletePropagationBackground,
	}
	for name := range ways {
		ns.Create(apps.WithoutPods(name))
		before[name] = ns.AwaitReady(name).UID
	}
	apps.AwaitNoWork(t, shared)
	operator.Stop()
	for name, propagation := range ways {
		if err := ns.Demo.Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
			t.Fatal(err)
		}
		removeFinalizer(t, ns, name)
		ns.AwaitGone(name)
		ns.Create(apps.WithoutPods(name))
	}

	cluster.StartOperator(t.Context(), t, shared)
	for name := range ways {
		app := ns.AwaitReady(name)
		if app.UID == before[name] || apps.Revision(app) != 2 {
			t.Errorf("%s: revision %d", name, apps.Revision(app))
		}
		cluster.Eventually(t.Context(), t, "four objects of the new DemoApp "+name, func(context.Context) (bool, error) {
			objects := ns.Objects(name).All()
			for _, object := range objects {
				if owner := metav1.GetControllerOf(object); owner == nil || owner.UID != app.UID {
					return false, nil
				}
			}
			return len(objects) == 4, nil
		})
		ns.Delete(name)
		ns.AwaitGone(name)
		if len(ns.Objects(name).All()) > 0 || len(ns.Records(name)) > 0 {
			t.Errorf("%s left: %v, %v", name, ns.Objects(name).All(), ns.Records(name))
		}
	}
}

// removeFinalizer removes only the operator's finalizer from a DemoApp.
func removeFinalizer(t *testing.T, ns *apps.Namespace, name string) {
	t.Helper()
	// The garbage collector updates the DemoApp as well.
	err := retry.RetryOnConflict(cluster.ConflictBackoff, func() error {
		app, err := ns.Demo.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		app.Finalizers = slices.DeleteFunc(app.Finalizers, func(finalizer string) bool { return finalizer == v1alpha1.Finalizer })
		_, err = ns.Demo.Update(t.Context(), app, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
