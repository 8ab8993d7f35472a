// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/example/demoapp-controller/pkg/controller"
)

// watchNamespaces sets environment.NamespaceMetadata and returns its service. An operator that
// watches some namespaces, or that may not watch Namespaces, goes without. A permission that is
// granted later counts from the next start on.
func watchNamespaces(ctx context.Context, environment *Environment) ([]Service, error) {
	if len(environment.Namespaces) > 0 {
		return nil, nil
	}
	resource, client := corev1.SchemeGroupVersion.WithResource("namespaces"), environment.Clients.Metadata
	ask := askToWatch(client)
	err := retryTransient(ctx, func(ctx context.Context) error { return ask(ctx, resource, metav1.NamespaceAll) })
	if apierrors.IsForbidden(err) {
		klog.FromContext(ctx).Info("Annotations of Namespaces have no effect, because the operator may not list and watch namespaces")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch Namespaces: %w", err)
	}
	shown, informer, err := controller.NewNamespaces(client)
	if err := errors.Join(err, informer.SetWatchErrorHandlerWithContext(environment.Metrics.WatchErrors("Namespaces"))); err != nil {
		return nil, fmt.Errorf("watch Namespaces: %w", err)
	}
	environment.NamespaceMetadata = shown
	return []Service{{Name: "informer of Namespaces", Run: func(ctx context.Context) error {
		informer.RunWithContext(ctx)
		return nil
	}}}, nil
}
