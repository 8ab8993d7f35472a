// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

func newInformer() (cache.SharedIndexInformer, error) {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{}), nil
}

func serviceNames(parts Parts) []string {
	var all []string
	for _, service := range parts.Services {
		all = append(all, service.Name)
	}
	return all
}

func TestInformersAreShared(t *testing.T) {
	env := NewEnvironment("test", nil, []string{"a", "b"}, nil, prometheus.NewRegistry())
	var seen []map[string]cache.SharedIndexInformer
	build := func(more string) Kind {
		return Kind{Name: more, Build: func(env *Environment) error {
			pods, err := env.Informers("Pods", func(string) (cache.SharedIndexInformer, error) { return newInformer() })
			seen = append(seen, pods)
			_, err2 := env.Informer(more, "", newInformer)
			return errors.Join(err, err2)
		}}
	}

	first, err1 := env.Build(build("Nodes"))
	second, err2 := env.Build(build("Zones"))

	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"informer of Pods in a", "informer of Pods in b", "informer of Nodes"}, serviceNames(first)); diff != "" {
		t.Errorf("services of the first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"informer of Zones"}, serviceNames(second)); diff != "" {
		t.Errorf("services of the second (-want +got):\n%s", diff)
	}
	for _, namespace := range []string{"a", "b"} {
		if seen[0][namespace] != seen[1][namespace] {
			t.Errorf("two informers of Pods in %s", namespace)
		}
	}
	if seen[0]["a"] == seen[0]["b"] {
		t.Error("two namespaces share an informer")
	}
}

func TestOnDemandInformersAreShared(t *testing.T) {
	env := NewEnvironment("test", nil, nil, nil, prometheus.NewRegistry())
	kind := Kind{Name: "k", Build: func(env *Environment) error {
		first, err1 := env.OnDemand("ConfigMaps", "", newInformer)
		second, err2 := env.OnDemand("ConfigMaps", "", newInformer)
		if first != second {
			t.Error("two informers of ConfigMaps")
		}
		return errors.Join(err1, err2)
	}}

	parts, err := env.Build(kind)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"informer of ConfigMaps"}, serviceNames(parts)); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestInformerBuildError(t *testing.T) {
	failure := errors.New("no such resource")
	env := NewEnvironment("test", nil, nil, nil, prometheus.NewRegistry())
	_, err := env.Informer("Pods", "a", func() (cache.SharedIndexInformer, error) { return nil, failure })
	if !errors.Is(err, failure) || err.Error() != "informer of Pods in a: no such resource" {
		t.Errorf("error = %v", err)
	}
	if parts, err := env.Build(Kind{Build: func(*Environment) error { return nil }}); len(parts.Services) != 0 || err != nil {
		t.Errorf("services = %q, error %v", serviceNames(parts), err)
	}
}

func TestInformerServiceEndsWithContext(t *testing.T) {
	env := NewEnvironment("test", nil, nil, nil, prometheus.NewRegistry())
	parts, err := env.Build(Kind{Build: func(env *Environment) error {
		_, err := env.OnDemand("Pods", "", newInformer)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := parts.Services[0].Run(ctx); err != nil {
		t.Errorf("Run() = %v", err)
	}
}
