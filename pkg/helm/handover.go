// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// handsOver reports whether a chart no longer sets the replicas that it set before, for example because
// an autoscaler sets them from now on.
func handsOver(original *resource.Info, object *unstructured.Unstructured) bool {
	before, err := content(original)
	return err == nil && hasReplicas(before) && !hasReplicas(object)
}

func hasReplicas(object *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	return found && err == nil
}

// handOver keeps the replicas of an object until their new owner sets them. Without another owner, an
// apply that leaves the field out resets it to the default of 1. See
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#transferring-ownership.
func (o *operation) handOver(info *resource.Info) error {
	live, err := o.client(info).Get(o.ctx, info.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hand over the replicas of %s: %w", reference(info), err)
	}
	replicas, found, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if err != nil || !found || !o.ours(info, live) {
		return nil //nolint:nilerr // A value that is no number is not handed over.
	}
	kept := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "metadata": map[string]any{"name": info.Name},
		"spec": map[string]any{"replicas": replicas},
	}}
	kept.SetNamespace(info.Namespace)
	applier := o.applier(info)
	applier.Manager = manifest.HandoverManager
	// A conflict means that another client has set the replicas since the read, and so owns them.
	applied, err := applier.Apply(o.ctx, kept, ssa.Keep, live.GetUID())
	if err != nil && !ssa.IsOtherObject(err) {
		return fmt.Errorf("hand over the replicas of %w", err)
	}
	if err == nil {
		o.engine.flights.Wrote(o.release, applied)
	}
	return nil
}
