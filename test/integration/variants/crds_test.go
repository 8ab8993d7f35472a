// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package variants

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// notInstalled begins the log line that names the kinds without a CRD.
const notInstalled = "Kinds without a CRD are not installed"

// TestStartBeforeCRDs starts the operator on a control plane to which the CRDs are applied later.
func TestStartBeforeCRDs(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	// The first start on a control plane applies the CRDs.
	cluster.StartOperator(t.Context(), t, shared).Stop()
	deleteCRDs(t)
	operator := cluster.LaunchOperator(t.Context(), t, shared)
	const line = notInstalled
	cluster.Eventually(t.Context(), t, "the operator says what is not installed", func(context.Context) (bool, error) {
		return strings.Contains(operator.Log(), line), nil
	})
	if code := readiness(t, operator); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d meanwhile", code)
	}

	if err := shared.InstallCRDs(t.Context(), "artifacts/crds"); err != nil {
		t.Fatal(err)
	}

	cluster.Eventually(t.Context(), t, "operator ready", func(context.Context) (bool, error) {
		return readiness(t, operator) == http.StatusOK, nil
	})
	ns.Create(apps.WithoutPods("web"))
	ns.AwaitReady("web")
	if said := strings.Count(operator.Log(), line); said != 1 {
		t.Errorf("the log says %d times what is not installed:\n%s", said, operator.Log())
	}
}

// TestStopBeforeCRDs stops an operator that waits for its CRDs.
func TestStopBeforeCRDs(t *testing.T) {
	apps.NewExclusive(t, shared)
	cluster.StartOperator(t.Context(), t, shared).Stop()
	deleteCRDs(t)
	operator := cluster.LaunchOperator(t.Context(), t, shared)
	cluster.Eventually(t.Context(), t, "the operator says what is not installed", func(context.Context) (bool, error) {
		return strings.Contains(operator.Log(), notInstalled), nil
	})

	operator.StopOrderly(t)
	if err := shared.InstallCRDs(t.Context(), "artifacts/crds"); err != nil {
		t.Fatal(err)
	}
}

// TestKindWaitsForCRDWhileAnotherRuns starts the operator without the CRD of DemoAppClusters, which
// is applied later.
func TestKindWaitsForCRDWhileAnotherRuns(t *testing.T) {
	ns := apps.NewExclusive(t, shared)
	cluster.StartOperator(t.Context(), t, shared).Stop()
	deleteCRDs(t, "demoappclusters.demo.example.com")

	operator := cluster.StartOperator(t.Context(), t, shared)

	ns.Create(apps.WithoutPods("web"))
	ns.AwaitReady("web")
	awaitWaiting(t, operator, map[string]int{"demoapp": 0, "demoappcluster": 0})
	cluster.Eventually(t.Context(), t, "log line about the kind that is not installed", func(context.Context) (bool, error) {
		return strings.Contains(operator.Log(), notInstalled), nil
	})
	if err := shared.InstallCRDs(t.Context(), "artifacts/crds"); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the kind runs", func(ctx context.Context) (bool, error) {
		metrics, err := operator.Metrics(ctx)
		return strings.Contains(metrics, `controller_resources{controller="demoappcluster"`), err
	})
	cluster.Eventually(t.Context(), t, "operator ready", func(context.Context) (bool, error) {
		return readiness(t, operator) == http.StatusOK, nil
	})
	if said := strings.Count(operator.Log(), notInstalled); said != 1 {
		t.Errorf("the log says %d times what is not installed:\n%s", said, operator.Log())
	}
}

// awaitWaiting waits until the metric of each kind has a value, which is 1 for a waiting kind.
func awaitWaiting(t *testing.T, operator *cluster.Operator, kinds map[string]int) {
	t.Helper()
	cluster.Eventually(t.Context(), t, fmt.Sprintf("kinds that wait: %v", kinds), func(ctx context.Context) (bool, error) {
		metrics, err := operator.Metrics(ctx)
		for kind, waiting := range kinds {
			if !strings.Contains(metrics, fmt.Sprintf("\ncontroller_kind_waiting{kind=%q} %d\n", kind, waiting)) {
				return false, err
			}
		}
		return true, err
	})
}

// deleteCRDs deletes CRDs, or all CRDs of the operator if none is named, and waits until they are
// removed.
func deleteCRDs(t *testing.T, names ...string) {
	t.Helper()
	if len(names) == 0 {
		crds, err := shared.Objects("artifacts/crds")
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range crds {
			names = append(names, crd.GetName())
		}
	}
	definitions := shared.Dynamic.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	for _, name := range names {
		if err := definitions.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t.Context(), t, name+" gone", func(ctx context.Context) (bool, error) {
			_, err := definitions.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), err
		})
	}
}

// readiness returns the status of /readyz; 0 without an answer.
func readiness(t *testing.T, operator *cluster.Operator) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, operator.ProbeURL()+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}
