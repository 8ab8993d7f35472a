// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	helmengine "github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/test/cluster"
)

// TestMemcachedChart installs the chart of the hybrid example into a namespace that enforces the
// restricted profile, and then sets every option. The API server accepts all objects.
func TestMemcachedChart(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(shared.Root(), "examples", "hybrid", "charts", "memcached")
	chart, err := chart.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "ci", "options-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var options map[string]any
	if err := yaml.UnmarshalStrict(data, &options); err != nil {
		t.Fatal(err)
	}
	namespace := shared.Namespace(t)
	restricted := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := shared.Client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, restricted, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	engine := startEngine(t, namespace)
	desired := helmengine.Release{Namespace: namespace, Name: "cache", Chart: chart}

	deployed := execute(t, engine, desired, helmengine.Baseline{})
	cluster.Eventually(t.Context(), t, "the pods are ready", func(ctx context.Context) (bool, error) {
		found, err := shared.Client.AppsV1().Deployments(namespace).Get(ctx, "cache-memcached", metav1.GetOptions{})
		if err == nil && found.Status.ReadyReplicas != 3 {
			err = fmt.Errorf("status is %+v", found.Status)
		}
		return err == nil, err
	})
	desired.Values = options
	deployed = execute(t, engine, desired, deployed.Baseline())

	if deployed.Revision != 2 {
		t.Errorf("revision is %d", deployed.Revision)
	}
	for kind, get := range map[string]func() error{
		"HorizontalPodAutoscaler": func() error {
			_, err := shared.Client.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "front", metav1.GetOptions{})
			return err
		},
		"Ingress": func() error {
			_, err := shared.Client.NetworkingV1().Ingresses(namespace).Get(t.Context(), "front", metav1.GetOptions{})
			return err
		},
		"ServiceAccount": func() error {
			_, err := shared.Client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "runner", metav1.GetOptions{})
			return err
		},
	} {
		if err := get(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// startEngine runs a second engine on one namespace, in parallel with the operator, until the end of the test.
func startEngine(t *testing.T, namespace string) *helmengine.Engine {
	t.Helper()
	engine, err := helmengine.New(helmengine.Config{RESTConfig: shared.AdminConfig(), Namespaces: []string{namespace}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { engine.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	if !cache.WaitForCacheSync(t.Context().Done(), engine.HasSynced) {
		t.Fatal(helmengine.ErrNotSynced)
	}
	return engine
}

// execute makes the release as desired.
func execute(t *testing.T, engine *helmengine.Engine, desired helmengine.Release, baseline helmengine.Baseline) *helmengine.Deployed {
	t.Helper()
	observed, err := engine.Observe(t.Context(), desired.Key(), baseline)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := engine.Decide(desired, observed)
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := engine.Execute(t.Context(), desired, decision, baseline)
	if err != nil {
		t.Fatal(err)
	}
	return deployed
}
