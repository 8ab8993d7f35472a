// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind/status"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// TestAPIServerConfirmsVersions: the API server refuses a status for an old version, and answers
// an empty patch with the newest version, which the patch does not change. The operator relies
// on both if its caches lag behind.
func TestAPIServerConfirmsVersions(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.Create(apps.Named("web"))
	old := ns.AwaitReady("web").DeepCopy()
	newest, err := ns.Demo.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata": {"labels": {"changed": "1"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}

	_, statusErr := status.Apply(t.Context(), ns.Demo, status.Target{
		GroupVersionKind: v1alpha1.SchemeGroupVersion.WithKind("DemoApp"), Object: old, FieldManager: "test",
	}, old.Status)

	if !apierrors.IsConflict(statusErr) {
		t.Errorf("error of a status for an old version is %v, want a conflict", statusErr)
	}
	for _, subresources := range [][]string{nil, {"status"}} {
		answer, err := ns.Demo.Patch(t.Context(), "web", types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: "test"}, subresources...)
		if err != nil {
			t.Fatal(err)
		}
		if answer.UID != newest.UID || answer.ResourceVersion != newest.ResourceVersion {
			t.Errorf("an empty patch of %q answers with version %s of %s, want %s of %s",
				subresources, answer.ResourceVersion, answer.UID, newest.ResourceVersion, newest.UID)
		}
	}
}
