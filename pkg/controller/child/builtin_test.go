// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child_test

import (
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/shardcache"
)

// noInformers is an environment without informers.
type noInformers struct{}

// Informers implements child.Informers.
func (noInformers) Informers(string, func(string) (cache.SharedIndexInformer, error)) (map[string]cache.SharedIndexInformer, error) {
	return map[string]cache.SharedIndexInformer{}, nil
}

// Selection implements child.Informers.
func (noInformers) Selection() *shardcache.Selection { return nil }

// TestBuiltin: common kinds need no declaration. The error for other kinds names the alternative.
func TestBuiltin(t *testing.T) {
	names := []string{
		"ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "Deployment", "StatefulSet", "Job", "CronJob", "Ingress",
		"NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding",
	}

	found, err := child.Builtin(noInformers{}, fake.NewClientset(), names...)

	if err != nil || len(found) != len(names) {
		t.Errorf("got %d kinds and the error %v", len(found), err)
	}
	if _, err := child.Builtin(noInformers{}, fake.NewClientset(), "ClusterRole"); err == nil {
		t.Error("a ClusterRole can be a child")
	}
}
