// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	watchesv1alpha1 "github.com/example/demoapp-controller/pkg/apis/watches/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/inspect"
)

// intended returns the release that a file watches.yaml makes for an object, as the operator does with
// the same environment and working directory.
func intended(ctx context.Context, name string, object *unstructured.Unstructured) (inspect.Intended, error) {
	entries, err := readEntries(name)
	if err != nil {
		return inspect.Intended{}, err
	}
	for _, entry := range entries {
		if entry.GroupVersionKind.GroupKind() == object.GroupVersionKind().GroupKind() {
			return intendedBy(ctx, entry, object)
		}
	}
	return inspect.Intended{}, fmt.Errorf("%s has no entry for the kind %s", name, object.GroupVersionKind().GroupKind())
}

// watchedKinds returns the kinds of a file watches.yaml.
func watchedKinds(name string) ([]schema.GroupKind, error) {
	entries, err := readEntries(name)
	kinds := make([]schema.GroupKind, 0, len(entries))
	for _, entry := range entries {
		kinds = append(kinds, entry.GroupVersionKind.GroupKind())
	}
	return kinds, err
}

func readEntries(name string) ([]file.Entry, error) {
	data, err := os.ReadFile(name) //nolint:gosec // The user names the file.
	if err != nil {
		return nil, err
	}
	return file.Parse(name, data, os.LookupEnv)
}

func intendedBy(ctx context.Context, entry file.Entry, object *unstructured.Unstructured) (found inspect.Intended, err error) {
	if err := entry.Waits(); err != nil {
		return found, err
	}
	cache, err := os.MkdirTemp("", "charts-")
	if err != nil {
		return found, err
	}
	defer os.RemoveAll(cache)
	if found.Chart, err = chart.Load(ctx, entry.Chart, chart.Source{CacheDir: cache}); err != nil {
		return found, entry.At("chart", err)
	}
	found.Namespace, found.Name = cmp.Or(object.GetNamespace(), entry.ReleaseNamespace), object.GetName()
	if entry.ReleaseName != nil {
		if found.Name, err = entry.ReleaseName.Execute(object); err != nil {
			return found, entry.At("releaseName", err)
		}
	}
	values, _, err := unstructured.NestedMap(object.Object, "spec")
	if entry.Values != nil {
		values, err = entry.Values.Execute(object)
	}
	if err != nil {
		return found, err
	}
	if found.Overridden, _, err = entry.Override(nil); err != nil {
		return found, entry.At("overrideValues", err)
	}
	if found.Values, _, err = entry.Override(values); err != nil {
		return found, entry.At("overrideValues", err)
	}
	found.Bounded = entry.Scope == file.ScopeNamespace
	found.SkipsHooks, _ = strconv.ParseBool(object.GetAnnotations()[watchesv1alpha1.AnnotationUpgradeDisableHooks])
	return found, nil
}
