// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/helm"
)

// maxReplicas is the largest number of replicas of a Memcached.
const maxReplicas = 10

// translate returns the values of a Memcached: its spec, with the object's name as a pod
// annotation.
func translate(_ context.Context, object *unstructured.Unstructured) (map[string]any, error) {
	values, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return nil, fmt.Errorf("spec: must be an object: %w", err)
	}
	if values == nil {
		values = map[string]any{}
	}
	if err := unstructured.SetNestedField(values, object.GetName(), "podAnnotations", "cache.my.domain/memcached"); err != nil {
		return nil, fmt.Errorf("spec.podAnnotations: must be an object: %w", err)
	}
	return values, nil
}

// checkReplicas refuses a Memcached with too many replicas. It runs before each reconcile.
func checkReplicas(_ context.Context, _ *unstructured.Unstructured, values map[string]any, _ klog.Logger) error {
	if replicas, ok := values["replicaCount"].(int64); ok && replicas > maxReplicas {
		return fmt.Errorf("spec.replicaCount: must be at most %d, got %d", maxReplicas, replicas)
	}
	return nil
}

// logRevision logs the deployed revision. It runs after each reconcile that left the release
// deployed as desired.
func logRevision(
	_ context.Context, _ *unstructured.Unstructured, release releasev1alpha1.DeployedRelease, _ map[string]any, logger klog.Logger,
) error {
	logger.V(2).Info("Deployed", "revision", release.Revision)
	return nil
}

// keepRevisions sets the number of revisions to keep to the value of an annotation.
func keepRevisions(value string, release *helm.Release) error {
	kept, err := strconv.ParseUint(value, 10, 8)
	if err != nil || kept == 0 {
		return fmt.Errorf("%q is not a number from 1 to 255", value)
	}
	release.MaxHistory = int(kept)
	return nil
}
